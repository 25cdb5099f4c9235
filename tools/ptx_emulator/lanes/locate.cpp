// SPDX-License-Identifier: Apache-2.0
// Addresses of lanes: what they may touch, and where that is in the host's memory.
#include <algorithm>

#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

constexpr uint8_t several = 255;

std::string hex(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

void need_aligned(uint64_t address, int bytes, int lane) {
  if (address % static_cast<uint64_t>(bytes))
    throw Fault{misaligned_address, std::to_string(bytes) + " bytes at " + hex(address) + " are not aligned", lane};
}

[[noreturn]] void stray(const char* space, uint64_t address, int bytes, uint64_t there, int lane) {
  throw Fault{illegal_address,
              std::to_string(bytes) + " bytes at " + hex(address) + " of " + space + " memory, which has " +
                  std::to_string(there),
              lane};
}

std::byte* in_global(const Warp& w, const Instruction& i, uint64_t address, int bytes, int lane) {
  need_aligned(address, bytes, lane);
  const std::vector<Range>& ranges = *w.block->ranges;
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                      [](uint64_t at, const Range& range) { return at < range.begin; });
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  if (after != ranges.begin() && end <= after[-1].end) {
    (*w.block->last_range)[static_cast<size_t>(i.index)] = after[-1];
    return reinterpret_cast<std::byte*>(address);
  }
  std::string near = "nothing is before it";
  if (after != ranges.begin())
    near = "the list before it has " + std::to_string(after[-1].end - after[-1].begin) + " bytes and ends " +
           std::to_string(static_cast<int64_t>(end - after[-1].end)) + " before the end of these";
  throw Fault{illegal_address, std::to_string(bytes) + " bytes at " + hex(address) + " are of no list; " + near, lane};
}

void all_global(Warp& w, const Instruction& i, const uint64_t* addresses, int bytes, std::byte** places) {
  const Range& last = (*w.block->last_range)[static_cast<size_t>(i.index)];
  const auto size = static_cast<uint64_t>(bytes);
  uint64_t wrong = 0;
  for_lanes(w.active, [&](int l) {
    const uint64_t at = addresses[l];
    places[l] = reinterpret_cast<std::byte*>(at);
    wrong |= static_cast<uint64_t>(at < last.begin) | static_cast<uint64_t>(at + size > last.end) | (at & (size - 1));
  });
  if (wrong) for_lanes(w.active, [&](int l) { in_global(w, i, addresses[l], bytes, l); });
}

void touch(Warp& w, int lane, uint64_t address, int bytes, Access access) {
  Block& block = *w.block;
  const auto self = static_cast<uint8_t>(w.number + 1);
  const bool writes = access != Access::read, is_atomic = access == Access::atomic;
  for (int at = 0; at < bytes; ++at) {
    Touch& byte = block.touches[address + static_cast<uint64_t>(at)];
    const bool other_wrote = byte.written == block.era && byte.writer != self && !(is_atomic && byte.is_atomic);
    const bool other_read = writes && byte.read == block.era && byte.reader != self;
    if (other_wrote || other_read) {
      const uint8_t other = other_wrote ? byte.writer : byte.reader;
      throw Fault{illegal_instruction,
                  "byte " + hex(address) + " of shared memory was " + (other_wrote ? "written" : "read") + " by " +
                      (other == several ? "several warps" : "warp " + std::to_string(other - 1)) + " and is " +
                      (writes ? "written" : "read") + " without a barrier between",
                  lane};
    }
    if (writes) byte.written = block.era, byte.writer = self, byte.is_atomic = is_atomic;
    else byte.reader = byte.read == block.era && byte.reader != self ? several : self, byte.read = block.era;
  }
}

std::byte* in_shared(Warp& w, uint64_t address, int bytes, Access access, int lane) {
  need_aligned(address, bytes, lane);
  if (address + static_cast<uint64_t>(bytes) > w.block->shared_bytes)
    stray("shared", address, bytes, w.block->shared_bytes, lane);
  if (!w.block->touches.empty()) touch(w, lane, address, bytes, access);
  return w.block->shared + address;
}

std::byte* in_local(Warp& w, uint64_t address, int bytes, int lane) {
  need_aligned(address, bytes, lane);
  if (address + static_cast<uint64_t>(bytes) > w.block->local_bytes)
    stray("local", address, bytes, w.block->local_bytes, lane);
  const auto thread = static_cast<size_t>(w.number * lanes_of_warp + lane);
  return w.block->local + thread * w.block->local_bytes + address;
}

std::byte* anywhere(Warp& w, const Instruction& i, uint64_t address, int bytes, Access access, int lane) {
  if (address - shared_window < window_bytes) return in_shared(w, address - shared_window, bytes, access, lane);
  if (address - local_window < window_bytes) return in_local(w, address - local_window, bytes, lane);
  return in_global(w, i, address, bytes, lane);
}

}  // namespace

void read_addresses(Warp& w, const Instruction& i, uint32_t place, uint64_t* addresses) {
  const auto offset = static_cast<uint64_t>(i.offset);
  if (i.narrow_address) {
    const uint32_t* from = w.lanes<uint32_t>(place);
    for_lanes(w.active, [&](int l) { addresses[l] = static_cast<uint32_t>(from[l] + offset); });
  } else {
    const uint64_t* from = w.lanes<uint64_t>(place);
    for_lanes(w.active, [&](int l) { addresses[l] = from[l] + offset; });
  }
}

void locate(Warp& w, const Instruction& i, Space space, const uint64_t* addresses, int bytes, Access access,
            std::byte** places) {
  switch (space) {
    case Space::global: return all_global(w, i, addresses, bytes, places);
    case Space::local: return for_lanes(w.active, [&](int l) { places[l] = in_local(w, addresses[l], bytes, l); });
    case Space::generic:
      return for_lanes(w.active, [&](int l) { places[l] = anywhere(w, i, addresses[l], bytes, access, l); });
    case Space::shared: break;
  }
  uint64_t wrong = w.block->touches.empty() ? 0 : 1;
  const uint64_t end = w.block->shared_bytes, size = static_cast<uint64_t>(bytes);
  for_lanes(w.active, [&](int l) {
    places[l] = w.block->shared + addresses[l];
    wrong |= (addresses[l] & (size - 1)) | static_cast<uint64_t>(addresses[l] + size > end);
  });
  if (wrong) for_lanes(w.active, [&](int l) { in_shared(w, addresses[l], bytes, access, l); });
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
