// SPDX-License-Identifier: Apache-2.0
#include "backends/sources.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace tenon::backends {
namespace {

uint64_t hash_named(std::string_view path) {
  static const auto table = [] {
    std::map<std::string_view, uint64_t> table;
    for (const SourceHash& one : source_hashes()) table[one.path] = one.hash;
    return table;
  }();
  const auto found = table.find(path);
  return found == table.end() ? 0 : found->second;
}

}  // namespace

uint64_t source_hash(const char* file, const char* family) {
  std::string_view path = file, rest = family;
  if (const size_t begin = path.rfind("backends/"); begin != std::string_view::npos) path.remove_prefix(begin);
  std::vector<uint64_t> hashes{hash_named(path)};
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    hashes.push_back(hash_named("kernels/" + std::string(name)));
  }
  for (const uint64_t hash : hashes)
    if (hash == 0) return 0;
  return hash64(std::as_bytes(std::span(hashes)));
}

}  // namespace tenon::backends
