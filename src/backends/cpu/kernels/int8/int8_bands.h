// SPDX-License-Identifier: Apache-2.0
// Copies of an image in which windows lie as they are: int16 less the zero point, bytes, or int16 made of floats. They
// are rows with their padding, or for kernels of one tap the pixels that are read.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

#include "backends/cpu/kernels/int8/int8_windows.h"
#include "backends/cpu/kernels/int8/quantise_int16.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// What copies are of.
template <class Number>
struct OfBytes {
  using From = uint8_t;
  using Element = Number;
  int32_t zero;
  explicit OfBytes(const Int8Plan& plan) : zero(plan.in_zero) {}
  TENON_INLINE Element* copy(Element* to, const From* from, int64_t count) const {
    return copy_taps(to, from, count, zero);
  }
  TENON_INLINE Element* pad(Element* to, int64_t count) const { return copy_padding(to, count, zero); }
};
struct OfFloats : Int16Quantiser {
  using From = float;
  using Element = int16_t;
  explicit OfFloats(const Int8Plan& plan) : Int16Quantiser(plan.in_scale, plan.in_zero, plan.in_low, plan.in_high) {}
};

// Pixels of all channels of a slice from column -pad_left to fill a copied row; a `row` of null lies outside the image.
template <class Source>
TENON_INLINE void copy_band_row(const Int8Plan& plan, const Source& of, const typename Source::From* row,
                                typename Source::Element* to) {
  using Element = typename Source::Element;
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.slices, pixels = plan.band_row / (c * static_cast<int64_t>(sizeof(Element)));
  if (!row) {
    of.pad(to, pixels * c);
    return;
  }
  const int64_t left = smaller(pixels, s.pad_left > 0 ? s.pad_left : 0), first = left - s.pad_left;
  const int64_t inside = smaller(pixels - left, s.in_w - first > 0 ? s.in_w - first : 0);
  to = of.pad(to, left * c);
  if (s.in_pixel == c) {
    to = of.copy(to, row + first * c, inside * c);
  } else {
    for (int64_t x = first; x < first + inside; ++x) to = of.copy(to, row + x * s.in_pixel, c);
  }
  of.pad(to, (pixels - left - inside) * c);
}

// Copies the rows that the outputs [first, first + count) read, of each slice of the channels behind those of the one
// before, and lists where the window of each begins in the first. Slices that are left out are not copied.
template <class Source>
__attribute__((noinline)) void copy_bands(const Int8Plan& plan, const typename Source::From* in, int64_t first,
                                          int64_t count, std::byte* band, const std::byte** windows) {
  using Element = typename Source::Element;
  const Source of(plan);
  const ConvShape& s = plan.shape;
  const int64_t step = s.stride_w * (s.in_c / s.slices) * static_cast<int64_t>(sizeof(Element));
  PixelCursor cursor(s, first);
  const std::byte* const* const end = windows + count;
  while (windows != end) {
    const int64_t image = cursor.image, top = cursor.y;
    int64_t bottom = top;
    while (windows != end && cursor.image == image) {
      bottom = cursor.y;
      const int64_t n = smaller(end - windows, s.out_w - cursor.x);
      const std::byte* const row = band + (bottom - top) * s.stride_h * plan.band_row + cursor.x * step;
      for (int64_t i = 0; i < n; ++i) windows[i] = row + i * step;
      windows += n;
      cursor.x += n - 1;
      cursor.next();
    }
    const FramesOutside outside(s, image);
    const int64_t y0 = top * s.stride_h - s.pad_top;
    const int64_t y1 = bottom * s.stride_h - s.pad_top + int64_t{s.kernel_h - 1} * s.dilation_h + 1;
    for (int64_t y = y0; y < y1; ++y, band += plan.band_row) {
      const auto* const row = y >= 0 && y < s.in_h ? in + image * s.in_image + y * s.in_row : nullptr;
      for (int64_t slice = 0; slice < s.slices; ++slice) {
        const bool inside = slice >= outside.above && slice < s.slices - outside.below;
        if (!inside && plan.part_starts) continue;
        copy_band_row(plan, of, row && inside ? row + slice * s.in_slice : nullptr,
                      reinterpret_cast<Element*>(band + slice * plan.band_slice));
      }
    }
  }
}

// Copies the pixels that `count` windows of one pixel each are, one behind the other.
template <class Source>
__attribute__((noinline)) void copy_pixels(const Int8Plan& plan, const typename Source::From* in, int64_t first,
                                           int64_t count, std::byte* pixels) {
  const ConvShape& s = plan.shape;
  const Source of(plan);
  auto* to = reinterpret_cast<typename Source::Element*>(pixels);
  PixelCursor cursor(s, first);
  for (int64_t left = count; left > 0;) {
    const int64_t n = smaller(left, s.out_w - cursor.x);
    const auto* const from =
        in + cursor.image * s.in_image + cursor.y * s.stride_h * s.in_row + cursor.x * s.stride_w * s.in_pixel;
    if (s.stride_w == 1 && s.in_pixel == s.in_c) {
      to = of.copy(to, from, n * s.in_c);
    } else {
      for (int64_t i = 0; i < n; ++i) to = of.copy(to, from + i * s.stride_w * s.in_pixel, s.in_c);
    }
    left -= n;
    cursor.x += n - 1;
    cursor.next();
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
