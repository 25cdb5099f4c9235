// SPDX-License-Identifier: Apache-2.0
// Each element of an image is the sum of what the blocks hold of it. A thread makes one pixel of PLANES channels.
// ELEMENT: type; sums are of f32. CHANNELS_LAST 1: images lie channels last. AXIS_0 to AXIS_2: three axes from the
// outermost on, each a list of Axis' parameters; those that an image does not have are of size 1.
typedef ELEMENT T;
#include "col2im_params.h"
typedef tenon::cuda::Col2ImParams Params;

// SHARE: common divisor of stride and dilation. Taps that hold one pixel lie PERIOD = STRIDE / SHARE apart, and INVERSE
// is that of DILATION / SHARE modulo PERIOD.
template <int IMAGE, int BLOCK, int STEPS, int STRIDE, int DILATION, int PAD, int SHARE, int INVERSE>
struct Axis {
  static constexpr int PERIOD = STRIDE / SHARE, HITS = (BLOCK + PERIOD - 1) / PERIOD, UNROLL = HITS <= 8 ? HITS : 1;
  static constexpr int SIZE = IMAGE, TAPS = BLOCK, PLACES = STEPS;
  int at, first;  // a pixel, counted from where the padding begins, and the first tap that may hold it
  __device__ __forceinline__ explicit Axis(int pixel) : at(pixel + PAD) {
    first = at / SHARE % PERIOD;
    if (INVERSE != 1) first = (int)((i64)first * INVERSE % PERIOD);
  }
  // The tap of a hit and the block's place, or false where there is none.
  __device__ __forceinline__ bool find(int hit, int& tap, int& place) const {
    tap = first + hit * PERIOD;
    const int from = at - tap * DILATION;
    place = from / STRIDE;
    return tap < BLOCK && from >= 0 && place < STEPS && at % SHARE == 0;
  }
};
typedef Axis<AXIS_0> Depth;
typedef Axis<AXIS_1> Height;
typedef Axis<AXIS_2> Width;

constexpr int PIXELS = Depth::SIZE * Height::SIZE * Width::SIZE;
constexpr int BLOCKS = Depth::PLACES * Height::PLACES * Width::PLACES;
constexpr i64 COLUMNS = (i64)Depth::TAPS * Height::TAPS * Width::TAPS * BLOCKS;

// A pixel of the first `planes` channels from x on.
__device__ __forceinline__ void add_up(float (&sum)[PLANES], const T* x, int pixel, int planes) {
  const Depth depth(pixel / Width::SIZE / Height::SIZE);
  const Height height(pixel / Width::SIZE % Height::SIZE);
  const Width width(pixel % Width::SIZE);
#pragma unroll Depth::UNROLL
  for (int i = 0; i < Depth::HITS; ++i) {
    int taps[3], places[3];
    const bool in_depth = depth.find(i, taps[0], places[0]);
#pragma unroll Height::UNROLL
    for (int j = 0; j < Height::HITS; ++j) {
      const bool in_height = height.find(j, taps[1], places[1]) && in_depth;
#pragma unroll Width::UNROLL
      for (int k = 0; k < Width::HITS; ++k) {
        const bool inside = width.find(k, taps[2], places[2]) && in_height;
        const int tap = (taps[0] * Height::TAPS + taps[1]) * Width::TAPS + taps[2];
        const int place = (places[0] * Height::PLACES + places[1]) * Width::PLACES + places[2];
#pragma unroll
        for (int n = 0; n < PLANES; ++n)
          sum[n] += inside && n < planes ? f32_of(x[n * COLUMNS + (i64)tap * BLOCKS + place]) : 0.f;
      }
    }
  }
}

#if CHANNELS_LAST
// A block has 32 pixels of 8 * PLANES channels, and turns them in shared memory.
extern "C" __global__ void __launch_bounds__(256)
    col2im(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  constexpr int CHANNELS = 8 * PLANES, TILES = (PIXELS + 31) / 32;
  __shared__ float tile[32][CHANNELS + 1];
  const int parts = (p.channels + CHANNELS - 1) / CHANNELS;
  const int first_pixel = blockIdx.x % TILES * 32, first_channel = blockIdx.x / TILES % parts * CHANNELS;
  const int image = blockIdx.x / TILES / parts, lane = threadIdx.x % 32, own = threadIdx.x / 32 * PLANES;
  wait_for_previous(breadcrumb);
  float sum[PLANES] = {};
  const int planes = p.channels - first_channel - own;
  if (first_pixel + lane < PIXELS && planes > 0)
    add_up(sum, p.x + ((i64)image * p.channels + first_channel + own) * COLUMNS, first_pixel + lane, planes);
#pragma unroll
  for (int n = 0; n < PLANES; ++n) tile[lane][own + n] = sum[n];
  __syncthreads();
  T* y = p.y + image * p.y_image;
#pragma unroll
  for (int i = threadIdx.x; i < 32 * CHANNELS; i += 256) {
    const int channel = i % CHANNELS, pixel = i / CHANNELS;
    if (first_pixel + pixel < PIXELS && first_channel + channel < p.channels)
      y[(i64)(first_pixel + pixel) * p.y_pixel + first_channel + channel] = of_f32<T>(tile[pixel][channel]);
  }
}
#else
extern "C" __global__ void __launch_bounds__(256)
    col2im(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int index = blockIdx.x * 256 + threadIdx.x;
  if (index >= p.count) return;
  const int pixel = index % PIXELS, plane = index / PIXELS * PLANES;
  float sum[PLANES] = {};
  add_up(sum, p.x + plane * COLUMNS, pixel, PLANES);
#pragma unroll
  for (int n = 0; n < PLANES; ++n) p.y[(i64)(plane + n) * PIXELS + pixel] = of_f32<T>(sum[n]);
}
#endif
