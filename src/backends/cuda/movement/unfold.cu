// SPDX-License-Identifier: Apache-2.0
// Windows of an image, by the window's places first. A block has CC channels of the windows of ROWS rows: it brings
// what they see to shared memory, channel by channel, and writes neighbouring windows side by side. Macros: ELEMENT,
// any type of its bytes; CHANNELS, HEIGHT, WIDTH of the image; KH, KW, STRIDE_H, STRIDE_W, DILATION_H, DILATION_W,
// TOP, LEFT; OH, OW windows; BY_CHANNEL 1: an image's neighbours are channels; EACH 2: two windows at a time, else 1.
typedef ELEMENT T;
#include "unfold_params.h"
typedef tenon::cuda::UnfoldParams Params;

constexpr int LINES = (ROWS - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1;
constexpr int COLUMNS = (OW - 1) * STRIDE_W + (KW - 1) * DILATION_W + 1;
// An odd number of words, so that neighbouring channels lie in other banks.
constexpr int WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1, PLANE = ((LINES * COLUMNS + WORD - 1) / WORD | 1) * WORD;
constexpr int TAPS = KH * KW, PLACES = ROWS * OW, PARTS = (CHANNELS + CC - 1) / CC, STRIPS = (OH + ROWS - 1) / ROWS;
struct __align__(EACH * sizeof(T)) Piece {
  T e[EACH];
};

extern "C" __global__ void __launch_bounds__(256)
    unfold(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ T image[CC * PLANE];
  const int first_row = blockIdx.x % STRIPS * ROWS, first_channel = blockIdx.x / STRIPS % PARTS * CC,
            n = blockIdx.x / STRIPS / PARTS;
  wait_for_previous(breadcrumb);
  constexpr int SEEN = CC * LINES * COLUMNS;
#pragma unroll 4
  for (int i = threadIdx.x; i < SEEN; i += 256) {
    const int channel = BY_CHANNEL ? i % CC : i / (LINES * COLUMNS);
    const int place = BY_CHANNEL ? i / CC : i % (LINES * COLUMNS);
    const int h = first_row * STRIDE_H - TOP + place / COLUMNS, w = place % COLUMNS - LEFT;
    const bool inside = h >= 0 && h < HEIGHT && w >= 0 && w < WIDTH && first_channel + channel < CHANNELS;
    image[channel * PLANE + place] =
        inside ? p.x[n * p.xs[0] + (first_channel + channel) * p.xs[1] + h * p.xs[2] + w * p.xs[3]] : T(0);
  }
  __syncthreads();
  T* y = p.y + ((i64)n * CHANNELS + first_channel) * TAPS * OH * OW + first_row * OW;
  constexpr int COUNT = CC * TAPS * PLACES / EACH;
#pragma unroll 4
  for (int i = threadIdx.x; i < COUNT; i += 256) {
    const int place = i % (PLACES / EACH) * EACH, line = i / (PLACES / EACH), tap = line % TAPS, channel = line / TAPS;
    const int row = place / OW, column = place % OW;
    if (first_row + row >= OH || first_channel + channel >= CHANNELS) continue;
    const T* from = image + channel * PLANE + (row * STRIDE_H + tap / KW * DILATION_H) * COLUMNS + column * STRIDE_W +
                    tap % KW * DILATION_W;
    Piece piece;
#pragma unroll
    for (int e = 0; e < EACH; ++e) piece.e[e] = from[e * STRIDE_W];
    *(Piece*)(y + (i64)line * OH * OW + place) = piece;
  }
}
