// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

/// The engine file, little-endian: a header, a table of sections, then the sections, each 64-byte aligned and
/// zero-padded to that. Every byte is covered by a hash: the header's covers header and table, a section's covers the
/// section with its padding.
namespace tenon::engine {

constexpr char magic[8] = {'T', 'E', 'N', 'O', 'N', '\r', '\n', '\x1a'};
constexpr uint32_t version = 3;
constexpr uint64_t alignment = 64;
constexpr uint64_t aligned(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr uint32_t max_sections = 16;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t file_bytes;
  uint64_t hash;  // XXH3 of header and table with this field zero
};

struct Section {
  char name[16];      // "plan": JSON; "graph": the IR's text; "pool": JSON table of tensors; "data": their bytes;
                       // "steps": JSON of profiles and of what runs in each; "why", not in all: JSON of what the
                       // build knows beside the plan
  uint64_t offset, bytes;  // bytes without padding
  uint64_t hash;
};

/// Names come from models and may hold any bytes, JSON may not: bytes above 0x7f and '%' are written as %xx.
std::string json_text(const std::string& bytes);
/// The bytes again; what is no escape stays as it is.
std::string json_bytes(const std::string& text);

static_assert(sizeof(Header) == 32 && sizeof(Section) == 40);

}  // namespace tenon::engine
