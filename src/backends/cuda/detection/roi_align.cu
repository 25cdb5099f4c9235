// SPDX-License-Identifier: Apache-2.0
// RoiAlign, a thread for each bin of a channel: regions of images in bins, each the mean or, where LARGEST, the largest
// share of a neighbour, of samples between pixels. ELEMENT, PLACE, INDEX: types of images, regions and their images;
// HALF 1: pixels lie half a pixel further. A region of no image is 0.
typedef ELEMENT T;
#include "roi_align_params.h"
typedef tenon::cuda::RoiAlignParams Params;

// The neighbours of a coordinate and the weight of the second; false where it lies more than a pixel outside.
__device__ __forceinline__ bool neighbours(float at, int size, int& first, int& second, float& weight) {
  if (!(at >= -1.f && at <= size)) return false;
  at = fmaxf(at, 0.f);
  first = at;
  if (first >= size - 1) first = size - 1, at = first;
  second = min(first + 1, size - 1), weight = at - first;
  return true;
}

extern "C" __global__ void __launch_bounds__(256)
    roi_align(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.elements) return;
  const int w = i % p.out_w, h = i / p.out_w % p.out_h, c = i / p.out_w / p.out_h % p.channels,
            r = i / p.out_w / p.out_h / p.channels;
  const i64 image = p.images[r];
  const float shift = HALF ? 0.5f : 0.f, left = f32_of(p.regions[r * 4]) * p.scale - shift,
              top = f32_of(p.regions[r * 4 + 1]) * p.scale - shift;
  float width = f32_of(p.regions[r * 4 + 2]) * p.scale - shift - left,
        height = f32_of(p.regions[r * 4 + 3]) * p.scale - shift - top;
  if (!HALF) width = fmaxf(width, 1.f), height = fmaxf(height, 1.f);
  const float bin_h = height / p.out_h, bin_w = width / p.out_w;
  const auto steps = [&](float bin) {
    return p.ratio > 0 ? p.ratio : fabsf(bin) < 1e30f ? (int)fminf(fmaxf(ceilf(bin), 0.f), 1024.f) : 0;
  };
  const int rows = image < 0 || image >= p.count ? 0 : steps(bin_h), columns = steps(bin_w);
  const T* plane = p.x + image * p.xs[0] + c * p.xs[1];
  float sum = 0.f, best = -__int_as_float(0x7f800000);
  for (int a = 0; a < rows; ++a)
    for (int b = 0; b < columns; ++b) {
      int y0 = 0, y1 = 0, x0 = 0, x1 = 0;
      float down = 0.f, across = 0.f;
      const bool inside = neighbours(top + bin_h * (h + (a + 0.5f) / rows), p.in_h, y0, y1, down) &&
                          neighbours(left + bin_w * (w + (b + 0.5f) / columns), p.in_w, x0, x1, across);
      const auto share = [&](int y, int x, float weight) {
        const float v = inside ? weight * f32_of(plane[y * p.xs[2] + x * p.xs[3]]) : 0.f;
        sum += v, best = fmaxf(best, v);
      };
      share(y0, x0, (1.f - down) * (1.f - across)), share(y0, x1, (1.f - down) * across);
      share(y1, x0, down * (1.f - across)), share(y1, x1, down * across);
    }
  const float result = rows * columns == 0 ? 0.f : LARGEST ? best : sum / (rows * columns);
  p.y[r * p.ys[0] + c * p.ys[1] + h * p.ys[2] + w * p.ys[3]] = of_f32<T>(result);
}
