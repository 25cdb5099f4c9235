// The inputs of products of bfloat16, rounded while they are copied. Only files built with AVX512-BF16 include this.
#pragma once

#include "backends/cpu/kernels/tile_rounds.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Rounds `count` numbers to bfloat16, to even.
TENON_INLINE void to_brains(uint16_t* to, const float* from, int64_t count) {
  for (int64_t at = 0; at < count; at += 16) {
    const auto mask = static_cast<__mmask16>(count - at < 16 ? (1u << (count - at)) - 1 : 0xffffu);
    const __m256bh v = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + at));
    _mm256_mask_storeu_epi16(to + at, mask, (__m256i)v);
  }
}

class BrainCopies {
 public:
  BrainCopies(const TilePlan& plan, const float* in) : plan_(plan), in_(in) {}

  // What the round's windows of a group see.
  void copy(const TileRound& round, int64_t group, std::byte* to) const {
    const ConvShape& s = plan_.shape;
    const int64_t c = s.in_c / s.groups;
    const float* const in = in_ + group * c;
    if (plan_.source == TileSource::windows) return copy_windows(in, round, to);
    each_picture_row(plan_, round, to, [&](int64_t y, std::byte* line, int64_t left, int64_t inside, int64_t right) {
      auto* const at = reinterpret_cast<uint16_t*>(line);
      if (y < 0) {
        __builtin_memset(at, 0, static_cast<size_t>((left + inside + right) * c) * 2);
        return;
      }
      __builtin_memset(at, 0, static_cast<size_t>(left * c) * 2);
      copy_pixels(at + left * c, in + round.image * s.in_image + y * s.in_row, inside);
      __builtin_memset(at + (left + inside) * c, 0, static_cast<size_t>(right * c) * 2);
    });
  }

 private:
  // Pixels of a row, one behind the other.
  void copy_pixels(uint16_t* to, const float* from, int64_t count) const {
    const int64_t c = plan_.shape.in_c / plan_.shape.groups, pixel = plan_.shape.in_pixel;
    if (pixel == c) return to_brains(to, from, count * c);
    for (int64_t x = 0; x < count; ++x) to_brains(to + x * c, from + x * pixel, c);
  }

  void copy_windows(const float* in, const TileRound& round, std::byte* to) const {
    const ConvShape& s = plan_.shape;
    const int64_t c = s.in_c / s.groups;
    PixelCursor cursor(s, round.first);
    for (int64_t i = 0; i < round.count; ++i, cursor.next(), to += plan_.step) {
      auto* at = reinterpret_cast<uint16_t*>(to);
      const int64_t y0 = cursor.y * s.stride_h - s.pad_top, x0 = cursor.x * s.stride_w - s.pad_left;
      const bool whole = s.dilation_w == 1 && x0 >= 0 && x0 + s.kernel_w <= s.in_w;
      for (int ky = 0; ky < s.kernel_h; ++ky) {
        const int64_t y = y0 + int64_t{ky} * s.dilation_h;
        const bool inside = y >= 0 && y < s.in_h;
        const float* const row = in + cursor.image * s.in_image + y * s.in_row;
        for (int kx = 0; kx < s.kernel_w; ++kx, at += c) {
          const int64_t x = x0 + int64_t{kx} * s.dilation_w;
          if (inside && whole) {
            copy_pixels(at, row + x * s.in_pixel, s.kernel_w);
            at += s.kernel_w * c;
            break;
          }
          if (inside && x >= 0 && x < s.in_w) to_brains(at, row + x * s.in_pixel, c);
          else __builtin_memset(at, 0, static_cast<size_t>(c) * 2);
        }
      }
      // The last chunk may reach beyond a window of one number.
      if (plan_.runs.length < plan_.runs.chunk) *at = 0;
    }
  }

  const TilePlan& plan_;
  const float* in_;
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
