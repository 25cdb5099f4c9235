// SPDX-License-Identifier: Apache-2.0
#include "vision/font.h"

#include <algorithm>
#include <cstdint>

namespace tenon::vision {
namespace {

// A glyph is strokes with blanks between; a stroke is points of a digit (x) and a letter (y, 'a' at the top of
// capitals, 'k' on the baseline). A capital letter marks a control point that the stroke rounds; a final '.' closes it.
constexpr const char* glyphs[] = {
    "",                            // space
    "0a0h 0k0k",                   // !
    "0a0c 2a2c",                   // "
    "2b1j 5b4j 0e6e 0h6h",         // #
    "6d6B0B0F3f6F6J0J0h 3a3k",     // $
    "0A2A2D0D. 6a0k 4H6H6K4K.",    // %
    "6k1c1A4A4D0F0K4K6g",          // &
    "0a0c",                        // '
    "2a0C0I2k",                    // (
    "0a2C2I0k",                    // )
    "2b2f 0c4e 4c0e",              // *
    "3d3j 0g6g",                   // +
    "1j0l",                        // ,
    "0g4g",                        // -
    "0k0k",                        // .
    "0k4a",                        // /
    "0A6A6K0K.",                   // 0
    "0c2a2k",                      // 1
    "0c0A6A6E0k6k",                // 2
    "0c0A6A6E3e 3e6E6K0K0i",       // 3
    "5k5a0h7h",                    // 4
    "6a1a0e 0e1D6D6K0K0i",         // 5
    "5a0C0K6K6E0E0h",              // 6
    "0a6a2k",                      // 7
    "0A6A6E0E. 0E6E6K0K.",         // 8
    "1k6I6A0A0G6G6d",              // 9
    "0e0e 0k0k",                   // :
    "1e1e 1j0l",                   // ;
    "4d0g4j",                      // <
    "0e5e 0h5h",                   // =
    "0d4g0j",                      // >
    "0c0A5A5E2F2h 2k2k",           // ?
    "5h5D2D2H5H6H7h7A0A0K6k",      // @
    "0k3a6k 1g5g",                 // A
    "0k0a3a6A6E3e0e 3e6E6K3k0k",   // B
    "6c6A0A0K6K6i",                // C
    "0a2a6A6K2k0k0a",              // D
    "6a0a0k6k 0e5e",               // E
    "6a0a0k 0e5e",                 // F
    "6c6A0A0K6K6f3f",              // G
    "0a0k 6a6k 0e6e",              // H
    "0a0k",                        // I
    "4a4g4K0K0i",                  // J
    "0a0k 6a0g 2e6k",              // K
    "0a0k5k",                      // L
    "0k0a4h8a8k",                  // M
    "0k0a6k6a",                    // N
    "0A7A7K0K.",                   // O
    "0k0a3a6A6F3f0f",              // P
    "0A7A7K0K. 4h7k",              // Q
    "0k0a3a6A6F3f0f 3f6k",         // R
    "6c6A0A0E3e6E6K0K0i",          // S
    "0a6a 3a3k",                   // T
    "0a0g0K6K6g6a",                // U
    "0a3k6a",                      // V
    "0a2k4c6k8a",                  // W
    "0a6k 6a0k",                   // X
    "0a3f6a 3f3k",                 // Y
    "0a6a0k6k",                    // Z
    "2a0a0l2l",                    // [
    "0a4k",                        // backslash
    "0a2a2l0l",                    // ]
    "0d2a4d",                      // ^
    "0k6k",                        // _
    "0a2c",                        // `
    "0D5D5K0K. 5d5k",              // a
    "0D5D5K0K. 0a0k",              // b
    "5f5D0D0K5K5i",                // c
    "0D5D5K0K. 5a5k",              // d
    "0g5g5D0D0K4K5j",              // e
    "4a1A1d1k 0d3d",               // f
    "0D5D5K0K. 5d5k5N0N0m",        // g
    "0a0k 0g0D5D5g5k",             // h
    "0d0k 0a0a",                   // i
    "2d2k2N0n 2a2a",               // j
    "0a0k 5d0h 2g5k",              // k
    "0a0i0K2k",                    // l
    "0d0k 0g0D4D4g4k 4g4D8D8g8k",  // m
    "0d0k 0g0D5D5g5k",             // n
    "0D5D5K0K.",                   // o
    "0D5D5K0K. 0d0n",              // p
    "0D5D5K0K. 5d5n",              // q
    "0d0k 0g0D4d",                 // r
    "4e4D0D0G2g4G4K0K0j",          // s
    "1b1h1K4k 0d4d",               // t
    "0d0h0K5K5h 5d5k",             // u
    "0d3k5d",                      // v
    "0d2k4e6k8d",                  // w
    "0d5k 5d0k",                   // x
    "0d3k 5d3k1n",                 // y
    "0d5d0k5k",                    // z
    "3a1A1e0f1g1K3k",              // {
    "0a0m",                        // |
    "0a2A2e3f2g2K0k",              // }
    "0g0E3F6G6e",                  // ~
};
constexpr const char* unknown_glyph = "0a5a5k0k.";
constexpr float gap = 3.2f, space = 4;
constexpr int curve_steps = 6;

struct FontPoint {
  float x, y;
  bool smooth;
};

FontPoint between(FontPoint a, FontPoint b) { return {(a.x + b.x) / 2, (a.y + b.y) / 2, false}; }

/// Writes one stroke; a smooth point is the control of a quadratic curve between the middles of its edges, or their
/// sharp ends.
void trace(const std::vector<FontPoint>& points, bool closed, float left, std::vector<Stroke>& strokes) {
  const size_t count = points.size();
  const auto line = [&](FontPoint a, FontPoint b) { strokes.push_back({a.x + left, a.y, b.x + left, b.y}); };
  const auto joint = [&](size_t at, size_t next) {
    return points[next].smooth ? between(points[at], points[next]) : points[next];
  };
  if (count == 1) line(points[0], points[0]);
  for (size_t at = 0; at < count; ++at) {
    const size_t before = (at + count - 1) % count, after = (at + 1) % count;
    if (points[at].smooth) {
      const FontPoint from = joint(at, before), control = points[at], to = joint(at, after);
      FontPoint last = from;
      for (int step = 1; step <= curve_steps; ++step) {
        const float t = static_cast<float>(step) / curve_steps, u = 1 - t;
        const FontPoint next{u * u * from.x + 2 * u * t * control.x + t * t * to.x,
                             u * u * from.y + 2 * u * t * control.y + t * t * to.y, false};
        line(last, next);
        last = next;
      }
    } else if ((closed || at + 1 < count) && !points[after].smooth) {
      line(points[at], points[after]);
    }
  }
}

float place(const char* glyph, float left, std::vector<Stroke>& strokes) {
  std::vector<FontPoint> points;
  float width = 0;
  bool closed = false;
  const auto finish = [&] {
    if (!points.empty()) trace(points, closed, left, strokes);
    points.clear();
    closed = false;
  };
  for (; *glyph; ++glyph) {
    if (*glyph == ' ') {
      finish();
    } else if (*glyph == '.') {
      closed = true;
    } else {
      const auto x = static_cast<float>(*glyph++ - '0');
      const bool smooth = *glyph >= 'A' && *glyph <= 'Z';
      points.push_back({x, static_cast<float>(*glyph - (smooth ? 'A' : 'a')), smooth});
      width = std::max(width, x);
    }
  }
  finish();
  return width;
}

}  // namespace

float text_strokes(std::string_view text, std::vector<Stroke>& strokes) {
  float at = 0;
  for (const char letter : text) {
    const auto code = static_cast<uint8_t>(letter);
    if ((code & 0xC0) == 0x80) continue;
    if (code == ' ') {
      at += space;
      continue;
    }
    at += place(code > ' ' && code <= '~' ? glyphs[code - ' '] : unknown_glyph, at, strokes) + gap;
  }
  return std::max(at - gap, 0.0f);
}

}  // namespace tenon::vision
