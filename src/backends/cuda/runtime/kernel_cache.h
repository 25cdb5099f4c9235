// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/folder.h"

/// Compiled kernels on disk. A file holds machine code or PTX, all that it was compiled from, and a hash of both; it is
/// named by a hash of the latter. So damage is found, and the code of one kernel never serves for another.
namespace tenon::cuda {

/// What a kernel is compiled from.
struct KernelKey {
  std::string text;      // the source, its macros, the architecture
  std::string compiler;  // its version
  /// Begins with the hash of the text, the same for all compilers.
  std::string file_name() const;
};

/// The content of a cached file, which it refers to.
struct CachedKernel {
  std::string_view code, text, compiler;
};

/// The folder of compiled kernels, which nobody but this user can write to. Throws Error(io) where there is none.
OpenFolder kernel_folder();
std::string cached_file(const KernelKey& key, std::string_view code);
/// nullopt where the bytes are damaged, or belong to a file of another name.
std::optional<CachedKernel> cached_kernel(const std::string& file_name, std::span<const std::byte> bytes);
/// The code for that key; else, with `any_compiler`, that of the same text by another one; else empty.
std::string find_kernel(const OpenFolder& folder, const KernelKey& key, bool any_compiler);

}  // namespace tenon::cuda
