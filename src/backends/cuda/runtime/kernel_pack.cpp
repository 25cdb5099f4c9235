// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/kernel_pack.h"

#include <tenon/error.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cuda/runtime/kernel_cache.h"
#include "backends/kernel_pack_mark.h"
#include "base/hash.h"

namespace tenon::cuda {
namespace {

/// The mark, version, count; for each kernel its name, size and bytes; at the end the hash of all before.
constexpr std::string_view magic = backends::kernel_pack_mark;
constexpr uint32_t version = 2;
constexpr size_t name_length = 32;  // of hexadecimal digits, before ".cubin"
constexpr const char* suffix = ".cubin";

bool is_name(const std::string& name) {
  return name.size() == name_length && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void put(std::vector<std::byte>& bytes, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

/// Takes from the front; false where less is left.
bool take(std::span<const std::byte>& rest, void* to, size_t size) {
  if (rest.size() < size) return false;
  std::memcpy(to, rest.data(), size);
  rest = rest.subspan(size);
  return true;
}

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw Error(Code::bad_engine, "the file is no whole pack of kernels",
              {.where = path, .why = why, .hint = "make it anew: tenon kernels export"});
}

}  // namespace

KernelCount export_kernels(const std::string& path) {
  std::vector<std::pair<std::string, std::shared_ptr<const MappedFile>>> found;
  const OpenFolder folder = kernel_folder();
  for (const std::string& file_name : folder.names()) {
    const std::string name = file_name.substr(0, name_length);
    if (file_name != name + suffix || !is_name(name)) continue;
    auto file = folder.map(file_name);
    if (cached_kernel(file_name, file->bytes())) found.emplace_back(name, std::move(file));
  }
  if (found.empty())
    throw Error(Code::usage, "there are no compiled kernels",
                {.where = folder.path(), .hint = "build an engine for the GPU first: they are kept as they are made"});
  std::sort(found.begin(), found.end());
  std::vector<std::byte> bytes;
  const auto count = static_cast<uint32_t>(found.size());
  put(bytes, magic.data(), magic.size()), put(bytes, &version, sizeof version), put(bytes, &count, sizeof count);
  KernelCount result{count, 0};
  for (const auto& [name, file] : found) {
    const uint64_t size = file->bytes().size();
    put(bytes, name.data(), name_length), put(bytes, &size, sizeof size), put(bytes, file->bytes().data(), size);
    result.bytes += static_cast<int64_t>(size);
  }
  const uint64_t hash = hash64(bytes);
  put(bytes, &hash, sizeof hash);
  write_atomically(path, bytes);
  return result;
}

namespace {

KernelCount imported(std::span<const std::byte> rest, const std::string& path) {
  uint64_t hash = 0;
  if (rest.size() < sizeof hash) damaged(path, "it is too short");
  const auto body = rest.first(rest.size() - sizeof hash);
  std::memcpy(&hash, rest.data() + body.size(), sizeof hash);
  rest = body;
  char start[8];
  uint32_t format = 0, count = 0;
  if (!take(rest, start, sizeof start) || std::memcmp(start, magic.data(), sizeof start) != 0)
    damaged(path, "it does not begin as one");
  if (hash != hash64(body)) damaged(path, "its hash differs");
  if (!take(rest, &format, sizeof format) || format != version)
    damaged(path, "it is of version " + std::to_string(format));
  if (!take(rest, &count, sizeof count)) damaged(path, "it is too short");
  std::vector<std::pair<std::string, std::span<const std::byte>>> kernels;
  for (uint32_t at = 0; at < count; ++at) {
    std::string name(name_length, '0');
    uint64_t size = 0;
    if (!take(rest, name.data(), name_length) || !take(rest, &size, sizeof size) || size > rest.size())
      damaged(path, "it is too short");
    const auto bytes = rest.first(size);
    rest = rest.subspan(size);
    if (!is_name(name) || !cached_kernel(name + suffix, bytes))
      damaged(path, "kernel " + std::to_string(at) + " is damaged");
    kernels.emplace_back(name, bytes);
  }
  if (!rest.empty()) damaged(path, "bytes follow the last kernel");
  const OpenFolder folder = kernel_folder();
  KernelCount result{count, 0};
  for (const auto& [name, bytes] : kernels) {
    folder.write(name + suffix, bytes);
    result.bytes += static_cast<int64_t>(bytes.size());
  }
  return result;
}

}  // namespace

KernelCount import_kernels(const std::string& path) {
  const auto file = MappedFile::open(path);
  return of_whole({file}, [&] { return imported(file->bytes(), path); });
}

}  // namespace tenon::cuda
