// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

/// What kernels are made of.
namespace tenon::backends {

/// Of a file of backends/, by its path from there on, or of a family of kernels/ by that without the ending.
struct SourceHash {
  const char* path;
  uint64_t hash;
};
/// Written by sources.cmake at every build.
const std::vector<SourceHash>& source_hashes();

/// Of a kernel: the file that registers it, its family, and all headers of its backend that these include, with what
/// stands behind them. 0 where the build knows no such file.
uint64_t source_hash(const char* file, const char* family);

}  // namespace tenon::backends
