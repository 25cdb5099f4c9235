// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/kernel_cache.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <array>
#include <cstring>

#include "base/hash.h"

namespace tenon::cuda {
namespace {

/// At the end of a file, behind code, text and compiler.
struct Trailer {
  std::array<uint64_t, 3> sizes;
  uint64_t hash;  // of all before it
};

std::string hex_of(const std::string& text) { return fmt::format("{:016x}", hash64(std::as_bytes(std::span(text)))); }

std::string code_for(const OpenFolder& folder, const std::string& name, const KernelKey& key, bool any_compiler) {
  try {
    const auto file = folder.map(name);
    const auto kernel = cached_kernel(name, file->bytes());
    const bool fits = kernel && kernel->text == key.text && (any_compiler || kernel->compiler == key.compiler);
    return fits ? std::string(kernel->code) : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string KernelKey::file_name() const { return hex_of(text) + hex_of(text + '\n' + compiler) + ".cubin"; }

OpenFolder kernel_folder() {
  const std::string path = cache_path();
  if (path.empty())
    throw Error(Code::io, "there is no folder for compiled kernels",
                {.hint = "set TENON_CACHE_DIR to a folder that is yours alone"});
  return OpenFolder::open_private(path + "/kernels");
}

std::string cached_file(const KernelKey& key, std::string_view code) {
  std::string file(code);
  file += key.text + key.compiler;
  Trailer trailer{{code.size(), key.text.size(), key.compiler.size()}, 0};
  file.append(reinterpret_cast<const char*>(&trailer.sizes), sizeof trailer.sizes);
  trailer.hash = hash64(std::as_bytes(std::span(file)));
  return file.append(reinterpret_cast<const char*>(&trailer.hash), sizeof trailer.hash);
}

std::optional<CachedKernel> cached_kernel(const std::string& file_name, std::span<const std::byte> bytes) {
  Trailer trailer;
  if (bytes.size() <= sizeof trailer) return std::nullopt;
  size_t left = bytes.size() - sizeof trailer;
  std::memcpy(&trailer, bytes.data() + left, sizeof trailer);
  if (hash64(bytes.first(bytes.size() - sizeof trailer.hash)) != trailer.hash) return std::nullopt;
  std::array<std::string_view, 3> parts;
  const char* at = reinterpret_cast<const char*>(bytes.data());
  for (size_t part = 0; part < parts.size(); ++part) {
    if (trailer.sizes[part] > left) return std::nullopt;
    parts[part] = {at, trailer.sizes[part]};
    at += trailer.sizes[part], left -= trailer.sizes[part];
  }
  const bool whole = left == 0 && !parts[0].empty();
  const KernelKey key{std::string(parts[1]), std::string(parts[2])};
  if (!whole || key.file_name() != file_name) return std::nullopt;
  return CachedKernel{parts[0], parts[1], parts[2]};
}

std::string find_kernel(const OpenFolder& folder, const KernelKey& key, bool any_compiler) {
  if (std::string code = code_for(folder, key.file_name(), key, false); !code.empty() || !any_compiler) return code;
  const std::string prefix = hex_of(key.text);
  for (const std::string& name : folder.names())
    if (name.starts_with(prefix))
      if (std::string code = code_for(folder, name, key, true); !code.empty()) return code;
  return {};
}

}  // namespace tenon::cuda
