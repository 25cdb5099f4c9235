// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "backends/backend.h"

/// The compiled kernels of the cache as one file, for machines without a compiler.
namespace tenon::cuda {

using backends::KernelCount;

/// Writes all kernels of the cache. Throws Error(io), Error(usage) where there are none.
KernelCount export_kernels(const std::string& path);
/// Puts the kernels of a pack into the cache. All is checked before anything is written: hashes tell damage, not
/// intent, so a pack is code to be trusted as a program is. Throws Error(bad_engine) for damage, Error(io).
KernelCount import_kernels(const std::string& path);

}  // namespace tenon::cuda
