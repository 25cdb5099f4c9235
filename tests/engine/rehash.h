// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "engine/format.h"

namespace tenon::test {

inline uint64_t hash_of(const std::string& bytes, size_t offset, size_t size) {
  return hash64(std::as_bytes(std::span(bytes)).subspan(offset, size));
}

/// Makes the hashes right again, as someone who changes an engine on purpose would.
inline void rehash(std::string& file) {
  engine::Header header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  const uint64_t table = sizeof header + header.sections * uint64_t{sizeof(engine::Section)};
  if (table > file.size()) return;
  for (uint32_t at = 0; at < header.sections; ++at) {
    engine::Section section;
    char* entry = file.data() + sizeof header + at * sizeof section;
    std::memcpy(&section, entry, sizeof section);
    const uint64_t end =
        section.offset + (section.bytes + engine::alignment - 1) / engine::alignment * engine::alignment;
    if (section.offset > file.size() || end > file.size() || end < section.offset) continue;
    section.hash = hash_of(file, section.offset, end - section.offset);
    std::memcpy(entry, &section, sizeof section);
  }
  const uint64_t head = (table + engine::alignment - 1) / engine::alignment * engine::alignment;
  header.hash = 0;
  std::memcpy(file.data(), &header, sizeof header);
  header.hash = hash_of(file, 0, std::min<uint64_t>(head, file.size()));
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace tenon::test
