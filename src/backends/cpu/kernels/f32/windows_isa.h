// SPDX-License-Identifier: Apache-2.0
// The inputs of convolution windows as lists of contiguous runs, for kernels that compute tiles of kPixels neighbouring
// output pixels. Everything lies in the worker's workspace.
#pragma once

#include "backends/cpu/kernels/simd.h"
#include "backends/cpu/kernels/f32/windows.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// A run of `length` elements of K for each pixel of a tile, behind `skip` that are padding for all of them.
template <class T, int kPixels>
struct SegmentOf {
  int64_t length, skip;
  const T* source[kPixels];
};

// Where the outputs and residuals of a tile lie.
template <int kPixels>
struct PixelTileOf {
  int64_t out[kPixels], residual[kPixels];
};

// The segments of tile t in K block b are ranges[t * (k_blocks + 1) + b] up to the next.
template <class T, int kPixels>
struct TablesOf {
  PixelTileOf<kPixels>* tiles;
  const SegmentOf<T, kPixels>** ranges;
  SegmentOf<T, kPixels>* segments;
};

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline int64_t segments_per_tile(const WindowPlan& plan) {
  const ConvShape& s = plan.shape;
  return plan.rows ? s.slices * s.kernel_h * s.kernel_w : plan.units;
}

template <class T, int kPixels>
size_t table_bytes(const WindowPlan& plan, int64_t tiles) {
  return round_up(tiles * sizeof(PixelTileOf<kPixels>), 64) +
         round_up(tiles * (plan.k_blocks + 1) * sizeof(void*), 64) +
         round_up(tiles * segments_per_tile(plan) * sizeof(SegmentOf<T, kPixels>), 64);
}

template <class T, int kPixels>
TablesOf<T, kPixels> tables_in(const WindowPlan& plan, int64_t tiles, std::byte* p) {
  TablesOf<T, kPixels> t;
  t.tiles = reinterpret_cast<PixelTileOf<kPixels>*>(p);
  p += round_up(tiles * sizeof(PixelTileOf<kPixels>), 64);
  t.ranges = reinterpret_cast<const SegmentOf<T, kPixels>**>(p);
  p += round_up(tiles * (plan.k_blocks + 1) * sizeof(void*), 64);
  t.segments = reinterpret_cast<SegmentOf<T, kPixels>*>(p);
  return t;
}

// Walks output pixels in order: batch, row, column.
struct PixelCursor {
  const ConvShape& s;
  int64_t image, y, x;

  PixelCursor(const ConvShape& shape, int64_t pixel) : s(shape) {
    image = pixel / (s.out_h * s.out_w);
    const int64_t rest = pixel - image * s.out_h * s.out_w;
    y = rest / s.out_w;
    x = rest - y * s.out_w;
  }
  void next() {
    if (++x < s.out_w) return;
    x = 0;
    if (++y < s.out_h) return;
    y = 0;
    ++image;
  }
};

inline bool is_pointwise(const ConvShape& s) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 &&
         s.pad_left == 0 && s.in_h == s.out_h && s.in_w == s.out_w;
}

// Segments of one tile when a kernel row of pixels is contiguous. Rows wholly inside for every pixel become one
// segment, the others one per tap; what lies outside for every pixel is left out.
template <class T, int kPixels>
SegmentOf<T, kPixels>* row_segments(const WindowPlan& plan, const T* in, const int64_t (*at)[3], int pixels,
                                    const SegmentOf<T, kPixels>** ranges, SegmentOf<T, kPixels>* out) {
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.slices;
  bool inside = true;
  for (int i = 0; i < pixels; ++i) inside &= at[i][2] >= 0 && at[i][2] + s.kernel_w <= s.in_w;
  const int taps = inside ? 1 : s.kernel_w;
  int64_t skip = 0;
  for (int unit = 0, ky = 0; unit < plan.units; ++unit) {
    if (unit % plan.units_per_block == 0) ranges[unit / plan.units_per_block] = out, skip = 0;
    for (int kx = 0; kx < taps; ++kx) {
      bool any = false;
      out->length = inside ? s.kernel_w * c : c;
      for (int i = 0; i < pixels; ++i) {
        const int64_t y = at[i][1] + ky, x = at[i][2] + kx;
        const bool valid = y >= 0 && y < s.in_h && x >= 0 && x < s.in_w;
        any |= valid;
        out->source[i] =
            valid ? in + at[i][0] * s.in_image + y * s.in_row + x * s.in_pixel : static_cast<const T*>(plan.zeros);
      }
      out->skip = skip;
      skip = any ? 0 : skip + out->length;
      out += any;
    }
    if (++ky == s.kernel_h) ky = 0, in += s.in_slice;
  }
  ranges[plan.k_blocks] = out;
  return out;
}

template <class T, int kPixels>
SegmentOf<T, kPixels>* tap_segments(const WindowPlan& plan, const T* in, const int64_t (*at)[3], int pixels,
                                    const SegmentOf<T, kPixels>** ranges, SegmentOf<T, kPixels>* out) {
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.groups / s.slices;
  int64_t skip = 0;
  for (int unit = 0, ky = 0; unit < plan.units;) {
    for (int kx = 0; kx < s.kernel_w; ++kx) {
      const T* source[kPixels];
      bool any = false;
      for (int i = 0; i < pixels; ++i) {
        const int64_t y = at[i][1] + int64_t{ky} * s.dilation_h, x = at[i][2] + int64_t{kx} * s.dilation_w;
        const bool valid = y >= 0 && y < s.in_h && x >= 0 && x < s.in_w;
        any |= valid;
        source[i] = valid ? in + at[i][0] * s.in_image + y * s.in_row + x * s.in_pixel : nullptr;
      }
      for (int q = 0; q < plan.chunks; ++q, ++unit) {
        if (unit % plan.units_per_block == 0) ranges[unit / plan.units_per_block] = out, skip = 0;
        const int64_t begin = int64_t{q} * plan.chunk;
        out->length = smaller(plan.chunk, c - begin);
        out->skip = skip;
        for (int i = 0; i < pixels; ++i)
          out->source[i] = source[i] ? source[i] + begin : static_cast<const T*>(plan.zeros);
        skip = any ? 0 : skip + out->length;
        out += any;
      }
    }
    if (++ky == s.kernel_h) ky = 0, in += s.in_slice;
  }
  ranges[plan.k_blocks] = out;
  return out;
}

// Whether pixels of all images lie at one distance.
inline bool is_even(const ConvShape& s, int64_t image, int64_t row, int64_t pixel) {
  return (s.out_h == 1 || row == s.out_w * pixel) && (s.batch == 1 || image == s.out_h * s.out_w * pixel);
}

// As fill_tables() fills them for pointwise windows where all distances are even.
template <class T, int kPixels>
void fill_even_tables(const WindowPlan& plan, const TablesOf<T, kPixels>& tables, const T* in, int64_t pixel,
                      int64_t count, int64_t large, int small) {
  const ConvShape& s = plan.shape;
  SegmentOf<T, kPixels>* segment = tables.segments;
  for (int64_t t = 0; t < count; ++t, pixel += t <= large ? small + 1 : small) {
    PixelTileOf<kPixels>& tile = tables.tiles[t];
    for (int i = 0; i < kPixels; ++i) tile.out[i] = (pixel + i) * s.out_pixel;
    for (int i = 0; i < kPixels; ++i) tile.residual[i] = (pixel + i) * s.res_pixel;
    const SegmentOf<T, kPixels>** ranges = tables.ranges + t * (plan.k_blocks + 1);
    for (int b = 0; b < plan.k_blocks; ++b) ranges[b] = segment + b * plan.units_per_block;
    for (int q = 0; q < plan.chunks; ++q, ++segment) {
      segment->length = smaller(plan.chunk, s.in_c / s.groups - int64_t{q} * plan.chunk);
      segment->skip = 0;
      const T* const from = in + pixel * s.in_pixel + q * plan.chunk;
      for (int i = 0; i < kPixels; ++i) segment->source[i] = from + i * s.in_pixel;
    }
    ranges[plan.k_blocks] = segment;
  }
}

// Tiles [0, count) covering `pixels` pixels from `first`; the leading `large` tiles have one pixel more than `small`.
template <class T, int kPixels>
void fill_tables(const WindowPlan& plan, const TablesOf<T, kPixels>& tables, const T* in, int64_t first, int64_t count,
                 int64_t large, int small) {
  const ConvShape& s = plan.shape;
  if (s.slices == 1 && is_pointwise(s) && is_even(s, s.in_image, s.in_row, s.in_pixel) &&
      is_even(s, s.out_image, s.out_row, s.out_pixel) && is_even(s, s.res_image, s.res_row, s.res_pixel))
    return fill_even_tables<T, kPixels>(plan, tables, in, first, count, large, small);
  SegmentOf<T, kPixels>* segment = tables.segments;
  PixelCursor cursor(s, first);
  for (int64_t t = 0; t < count; ++t) {
    const int pixels = t < large ? small + 1 : small;
    PixelTileOf<kPixels>& tile = tables.tiles[t];
    const SegmentOf<T, kPixels>** ranges = tables.ranges + t * (plan.k_blocks + 1);
    int64_t at[kPixels][3];
    for (int i = 0; i < pixels; ++i) {
      tile.out[i] = cursor.image * s.out_image + cursor.y * s.out_row + cursor.x * s.out_pixel;
      tile.residual[i] = cursor.image * s.res_image + cursor.y * s.res_row + cursor.x * s.res_pixel;
      at[i][0] = cursor.image;
      at[i][1] = cursor.y * s.stride_h - s.pad_top;
      at[i][2] = cursor.x * s.stride_w - s.pad_left;
      cursor.next();
    }
    if (plan.rows) {
      segment = row_segments<T, kPixels>(plan, in, at, pixels, ranges, segment);
    } else {
      segment = tap_segments<T, kPixels>(plan, in, at, pixels, ranges, segment);
    }
  }
}

// Offset in K of a K block.
inline int64_t block_k(const WindowPlan& plan, int block) {
  const int64_t unit = int64_t{block} * plan.units_per_block,
                c = plan.shape.in_c / plan.shape.groups / plan.shape.slices;
  if (unit >= plan.units) return plan.k;
  if (plan.rows) return unit * plan.shape.kernel_w * c;
  return unit / plan.chunks * c + unit % plan.chunks * plan.chunk;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
