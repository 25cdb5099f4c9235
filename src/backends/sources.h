#pragma once
#include <cstdint>
#include <vector>

/// Written by sources.cmake at every build.
namespace tenon::backends {

/// Of a file of backends/, by its path from there on, or of a family of kernels/ by that without the ending.
struct SourceHash {
  const char* path;
  uint64_t hash;
};
const std::vector<SourceHash>& source_hashes();

}  // namespace tenon::backends
