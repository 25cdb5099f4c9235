// SPDX-License-Identifier: Apache-2.0
// The frames that each window sees side by side as channels, channels last, and zeros behind them (tenon:Frames). A
// thread makes 16 bytes of a pixel. OWN: bytes of a frame's pixel; SEEN: of all that a window sees; CHUNKS: vectors of
// a pixel of the result; PIECE: bytes of a load; WIDTH, HEIGHT, FRAMES: sizes of the result.
#include "frames_params.h"
typedef tenon::cuda::FramesParams Params;

struct __align__(PIECE) Piece {
  u8 bytes[PIECE];
};
struct __align__(16) Pieces {
  Piece e[16 / PIECE];
};

extern "C" __global__ void __launch_bounds__(256)
    frames(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const u32 first = i % CHUNKS * 16, pixel = i / CHUNKS, line = pixel / WIDTH, frame = line / HEIGHT;
  const u8* from = p.x + frame / FRAMES * p.image + frame % FRAMES * p.frame + line % HEIGHT * p.row +
                   pixel % WIDTH * p.pixel;
  Pieces out;
#pragma unroll
  for (int k = 0; k < 16 / PIECE; ++k) {
    const u32 at = first + k * PIECE;
    out.e[k] = at < SEEN ? *(const Piece*)(from + at / OWN * p.tap + at % OWN) : Piece{};
  }
  *(Pieces*)(p.y + (i64)i * 16) = out;
}
