// SPDX-License-Identifier: Apache-2.0
// The inputs of products of bfloat16, rounded while they are copied. Only files built with AVX512-BF16 include this.
#pragma once

#include "backends/cpu/kernels/tile_rounds.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Rounds `count` numbers to bfloat16, to even.
TENON_INLINE void to_bf16(uint16_t* to, const float* from, int64_t count) {
  for (int64_t at = 0; at < count; at += 16) {
    const auto mask = static_cast<__mmask16>(count - at < 16 ? (1u << (count - at)) - 1 : 0xffffu);
    const __m256bh v = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + at));
    _mm256_mask_storeu_epi16(to + at, mask, (__m256i)v);
  }
}

class Bf16Copies {
 public:
  Bf16Copies(const TilePlan& plan, const float* in) : plan_(plan), in_(in) {
    const int64_t c = plan.shape.in_c;
    for (int64_t at = 0; plan.shape.in_nchw && at < kTogether * c; ++at)
      order_[at] = static_cast<uint16_t>(at % c * kTogether + at / c);
  }

  // What the round's windows of a group see.
  void copy(const TileRound& round, int64_t group, std::byte* to) const {
    const ConvShape& s = plan_.shape;
    const int64_t c = s.in_c / s.groups;
    const float* const in = in_ + group * c;
    if (plan_.source == TileSource::windows) return copy_windows(in, round, to);
    each_image_row(plan_, round, to, [&](int64_t y, std::byte* line, int64_t left, int64_t inside, int64_t right) {
      auto* const at = reinterpret_cast<uint16_t*>(line);
      if (y < 0) {
        __builtin_memset(at, 0, static_cast<size_t>((left + inside + right) * c) * 2);
        return;
      }
      __builtin_memset(at, 0, static_cast<size_t>(left * c) * 2);
      if (s.in_nchw) copy_planes(at + left * c, in_ + (round.image * c * s.in_h + y) * s.in_w, inside);
      else copy_pixels(at + left * c, in + round.image * s.in_image + y * s.in_row, inside);
      __builtin_memset(at + (left + inside) * c, 0, static_cast<size_t>(right * c) * 2);
    });
  }

 private:
  static constexpr int64_t kTogether = 16, kPlanes = 4;  // pixels of planes side by side in a pair of vectors

  // The same of planes, whose numbers of a pixel come together.
  void copy_planes(uint16_t* to, const float* from, int64_t count) const {
    const ConvShape& s = plan_.shape;
    const int64_t c = s.in_c, plane = s.in_h * s.in_w;
    for (int64_t at = 0; at < count; at += kTogether) {
      const int64_t n = smaller(kTogether, count - at);
      const auto some = static_cast<__mmask16>((1u << n) - 1);
      __m256i planes[kPlanes];
      TENON_UNROLL
      for (int64_t k = 0; k < kPlanes; ++k)
        planes[k] = k < c ? (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, from + k * plane + at))
                          : _mm256_setzero_si256();
      const __m512i low = _mm512_inserti64x4(_mm512_castsi256_si512(planes[0]), planes[1], 1);
      const __m512i high = _mm512_inserti64x4(_mm512_castsi256_si512(planes[2]), planes[3], 1);
      for (int64_t first = 0; first < n * c; first += 2 * kTogether) {
        const int64_t left = smaller(2 * kTogether, n * c - first);
        _mm512_mask_storeu_epi16(to + at * c + first, static_cast<__mmask32>((uint64_t{1} << left) - 1),
                                 _mm512_permutex2var_epi16(low, _mm512_loadu_si512(order_ + first), high));
      }
    }
  }

  // Pixels of a row, one behind the other.
  void copy_pixels(uint16_t* to, const float* from, int64_t count) const {
    const int64_t c = plan_.shape.in_c / plan_.shape.groups, pixel = plan_.shape.in_pixel;
    if (pixel == c) return to_bf16(to, from, count * c);
    for (int64_t x = 0; x < count; ++x) to_bf16(to + x * c, from + x * pixel, c);
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
          if (inside && x >= 0 && x < s.in_w) to_bf16(at, row + x * s.in_pixel, c);
          else __builtin_memset(at, 0, static_cast<size_t>(c) * 2);
        }
      }
      // The last chunk may reach beyond a window of one number.
      if (plan_.runs.length < plan_.runs.chunk) *at = 0;
    }
  }

  const TilePlan& plan_;
  const float* in_;
  uint16_t order_[kPlanes * kTogether] = {};  // where the numbers of pixels stand among those of planes
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
