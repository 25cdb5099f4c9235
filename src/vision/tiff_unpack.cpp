// SPDX-License-Identifier: Apache-2.0
#include "vision/tiff_unpack.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

namespace tenon::vision {
namespace {

bool unpack_bits(std::span<const uint8_t> packed, std::span<uint8_t> out) {
  size_t at = 0, done = 0;
  while (done < out.size()) {
    if (at >= packed.size()) return false;
    const int head = static_cast<int8_t>(packed[at++]);
    if (head == -128) continue;
    const size_t count = static_cast<size_t>(head < 0 ? 1 - head : head + 1);
    if (count > out.size() - done || (head < 0 ? 1 : count) > packed.size() - at) return false;
    if (head < 0) std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(done), count, packed[at]);
    else
      std::copy_n(packed.begin() + static_cast<std::ptrdiff_t>(at), count,
                  out.begin() + static_cast<std::ptrdiff_t>(done));
    at += head < 0 ? 1 : count;
    done += count;
  }
  return true;
}

bool inflate_all(std::span<const uint8_t> packed, std::span<uint8_t> out) {
  if (packed.size() > std::numeric_limits<uInt>::max() || out.size() > std::numeric_limits<uInt>::max()) return false;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  stream.next_in = const_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_SYNC_FLUSH);
  inflateEnd(&stream);
  return (status == Z_OK || status == Z_STREAM_END) && stream.avail_out == 0;
}

/// Codes of 9 to 12 bits, highest bit first, each a string that is one byte longer than an earlier one.
bool unpack_lzw(std::span<const uint8_t> packed, std::span<uint8_t> out) {
  constexpr uint32_t clear = 256, end = 257, first_free = 258, most = 4096;
  struct Entry {
    uint16_t before;
    uint8_t last, first;
    uint16_t length;
  };
  std::array<Entry, most> table{};
  for (uint32_t code = 0; code < clear; ++code)
    table[code] = {0, static_cast<uint8_t>(code), static_cast<uint8_t>(code), 1};
  uint32_t buffer = 0, held = 0, width = 9, next = first_free, before = clear;
  size_t at = 0, done = 0;
  while (done < out.size()) {
    while (held < width) {
      if (at >= packed.size()) return false;
      buffer = buffer << 8 | packed[at++], held += 8;
    }
    const uint32_t code = buffer >> (held - width) & ((1u << width) - 1);
    held -= width;
    if (code == end) return false;
    if (code == clear) {
      width = 9, next = first_free, before = clear;
      continue;
    }
    if (code > next || (code == next && before == clear) || (code >= clear && code < first_free)) return false;
    if (before != clear && next < most) {
      const uint8_t last = code == next ? table[before].first : table[code].first;
      table[next] = {static_cast<uint16_t>(before), last, table[before].first,
                     static_cast<uint16_t>(table[before].length + 1)};
      ++next;
    } else if (code >= next) {
      return false;
    }
    const size_t length = table[code].length, fits = std::min(length, out.size() - done);
    uint32_t from = code;
    for (size_t back = length; back-- > 0; from = table[from].before)
      if (back < fits) out[done + back] = table[from].last;
    done += fits;
    before = code;
    // Writers change to longer codes one code early.
    if (next + 1 >= 1u << width && width < 12) ++width;
  }
  return true;
}

}  // namespace

bool is_known(TiffPacking packing) {
  return packing == TiffPacking::none || packing == TiffPacking::lzw || packing == TiffPacking::deflate ||
         packing == TiffPacking::old_deflate || packing == TiffPacking::packbits;
}

size_t most_growth(TiffPacking packing) {
  if (packing == TiffPacking::none) return 1;
  if (packing == TiffPacking::packbits) return 64;
  return packing == TiffPacking::lzw ? 4096 : 1040;
}

bool unpack(TiffPacking packing, std::span<const uint8_t> packed, std::span<uint8_t> out) {
  switch (packing) {
    case TiffPacking::none:
      if (packed.size() < out.size()) return false;
      std::copy_n(packed.begin(), out.size(), out.begin());
      return true;
    case TiffPacking::lzw: return unpack_lzw(packed, out);
    case TiffPacking::packbits: return unpack_bits(packed, out);
    case TiffPacking::deflate:
    case TiffPacking::old_deflate: return inflate_all(packed, out);
  }
  return false;
}

}  // namespace tenon::vision
