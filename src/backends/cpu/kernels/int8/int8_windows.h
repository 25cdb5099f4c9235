// SPDX-License-Identifier: Apache-2.0
// Numbers of windows copied beside each other: bytes as they are, or int16 of them less the zero point.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/f32/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Eight int16 of bytes less the zero point.
TENON_INLINE void copy_eight(int16_t* to, const uint8_t* from, __m128i zero) {
  _mm_storeu_si128((__m128i*)to, _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)from)), zero));
}

// What a form multiplies: bytes as they are, or int16 of them less the zero point. Ends of vectors overlap, which is
// faster than a loop over what is left.
TENON_INLINE int16_t* copy_taps(int16_t* to, const uint8_t* from, int64_t count, int32_t zero_point) {
  constexpr int64_t kPerVector = 2 * kLanes;
  if (count >= kPerVector) {
    const IVec zero = iset16(zero_point);
    for (int64_t at = 0; at < count; at += kPerVector) {
      const int64_t begin = smaller(at, count - kPerVector);
      istore(to + begin, isub16(widen16(from + begin), zero));
    }
  } else if (count >= 8) {
    const __m128i zero = _mm_set1_epi16(static_cast<int16_t>(zero_point));
    for (int64_t at = 0; at < count; at += 8) {
      const int64_t begin = smaller(at, count - 8);
      copy_eight(to + begin, from + begin, zero);
    }
  } else {
    for (int64_t at = 0; at < count; ++at) to[at] = static_cast<int16_t>(from[at] - zero_point);
  }
  return to + count;
}
TENON_INLINE uint8_t* copy_taps(uint8_t* to, const uint8_t* from, int64_t count, int32_t) {
  if (count >= 16 && count <= 128) {
    for (int64_t at = 0; at < count; at += 16) {
      const int64_t begin = smaller(at, count - 16);
      _mm_storeu_si128((__m128i*)(to + begin), _mm_loadu_si128((const __m128i*)(from + begin)));
    }
  } else if (count >= 8 && count < 16) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + count - 8, from + count - 8, 8);
  } else if (count < 8) {
    for (int64_t at = 0; at < count; ++at) to[at] = from[at];
  } else {
    __builtin_memcpy(to, from, static_cast<size_t>(count));
  }
  return to + count;
}

// The same for at most 16 bytes where 16 may be read and written.
TENON_INLINE uint8_t* copy_few(uint8_t* to, const uint8_t* from, int64_t count) {
  _mm_storeu_si128((__m128i*)to, _mm_loadu_si128((const __m128i*)from));
  return to + count;
}

template <class Element>
TENON_INLINE Element* copy_padding(Element* to, int64_t count, int32_t zero_point) {
  __builtin_memset(to, sizeof(Element) == 2 ? 0 : zero_point, static_cast<size_t>(count) * sizeof(Element));
  return to + count;
}

// The window, of bytes, whose first tap lies at row y0, column x0 of an image; `in` is its first channel, `end` the end
// of all images. What fills the window's last unit stays as it is, and up to 16 bytes behind may change: weights are 0
// there, and the next window is written later.
TENON_INLINE void copy_window(const ConvShape& s, int32_t zero, const uint8_t* in, const uint8_t* end, int64_t y0,
                              int64_t x0, uint8_t* to) {
  const int64_t c = s.in_c / s.groups;
  const bool touching = s.dilation_w == 1 && s.in_pixel == c;
  const bool inside = touching && x0 >= 0 && x0 + s.kernel_w <= s.in_w;
  const int64_t run = s.kernel_w * c;
  for (int ky = 0; ky < s.kernel_h; ++ky) {
    const int64_t y = y0 + int64_t{ky} * s.dilation_h;
    if (y < 0 || y >= s.in_h) {
      to = copy_padding(to, s.kernel_w * c, zero);
      continue;
    }
    const uint8_t* const row = in + y * s.in_row;
    if (inside) {
      const uint8_t* const from = row + x0 * c;
      to = run <= 16 && end - from >= 16 ? copy_few(to, from, run) : copy_taps(to, from, run, zero);
      continue;
    }
    if (touching) {
      const int64_t left = smaller(s.kernel_w, x0 < 0 ? -x0 : 0), last = smaller(s.kernel_w, s.in_w - x0);
      if (left) to = copy_padding(to, left * c, zero);
      if (last > left) to = copy_taps(to, row + (x0 + left) * c, (last - left) * c, zero);
      if (last < s.kernel_w) to = copy_padding(to, (s.kernel_w - (last > left ? last : left)) * c, zero);
      continue;
    }
    for (int kx = 0; kx < s.kernel_w; ++kx) {
      const int64_t x = x0 + int64_t{kx} * s.dilation_w;
      to = x < 0 || x >= s.in_w ? copy_padding(to, c, zero) : copy_taps(to, row + x * s.in_pixel, c, zero);
    }
  }
}

// The windows of `count` outputs from `first`, `pitch` bytes from one to the next.
inline __attribute__((noinline)) void copy_windows(const ConvShape& s, int32_t zero, const uint8_t* in, int64_t first,
                                                   int64_t count, int64_t pitch, std::byte* windows) {
  const uint8_t* const end = in + (s.batch - 1) * s.in_image + (s.in_h - 1) * s.in_row + (s.in_w - 1) * s.in_pixel +
                             s.in_c / s.groups;
  PixelCursor cursor(s, first);
  for (int64_t i = 0; i < count; ++i, cursor.next(), windows += pitch)
    copy_window(s, zero, in + cursor.image * s.in_image, end, cursor.y * s.stride_h - s.pad_top,
                cursor.x * s.stride_w - s.pad_left, reinterpret_cast<uint8_t*>(windows));
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
