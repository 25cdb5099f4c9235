// SPDX-License-Identifier: Apache-2.0
// What the baseline halves (int8.cpp, int8_depthwise.cpp, int8_winograd.cpp) and the per-instruction-set halves of the
// integer convolutions share. Every result is the same on every instruction set and for every number of workers, bit
// for bit: sums are exact, and the float steps after them are single IEEE operations in one order.
#pragma once

#include <cstddef>

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// What is known of the input only when it runs.
struct Int8Dynamic {
  float scale;
  int32_t zero;
};

// From an exact sum to an output: x = sum * multiplier + bias, then residual and activation as the epilogue says, then
// round(x * inverse_scale) + out_zero within a byte; ties go to even. in_steps, where ops/int8_steps.h says so: the
// lists are in steps of the output's scale, x = fma(sum, multiplier, bias), then fma(residual, residual_scale, x), then
// a clip, whose ends are in steps, too.
struct Int8Output {
  Epilogue epilogue;
  const float* multiplier;  // input scale times weight scale; [group][whole blocks]
  const float* bias;        // likewise, as the next two
  const float* residual_scale;
  const float* inverse_scale;  // null: the output is f32, x itself
  bool in_steps;
  float certain;  // with in_steps: how far from a whole number two roundings for each fma() may leave x, so that it is
                  // rounded as it should; or x is beyond a byte, where that does not matter
  int32_t residual_zero, out_zero;
  const Int8Dynamic* dynamic;        // or null: a scale that the multiplier is multiplied by, read by each run
  const int32_t* weight_sums;  // or null: sums are of bytes, and this times the dynamic zero point is subtracted
  bool sums;     // the output is i32, the sums
  bool bounded;  // no input makes an output that leaves 31 bits before it is brought within a byte
};

// How the inputs and weights that fill 32 bits are multiplied.
enum class Int8Form : uint8_t {
  int16,         // two of 16 bits, by vpmaddwd: any weights
  int8x2,        // four of 8, by vpmaddubsw: where no two neighbouring weights can leave 16 bits
  dot,           // four of 8, by vpdpbusd: any weights
  of_floats,     // two of 16 that are made of floats, by vpmaddwd
  of_floats_dot  // the same by vpdpwssd
};

constexpr bool takes_floats(Int8Form form) { return form == Int8Form::of_floats || form == Int8Form::of_floats_dot; }

// Tiles whose sums are finished together, as what finishes them is faster the longer it goes on.
constexpr int kTilesTogether = 4;

// Sums over windows that are read where they lie: in a copy of some rows of the image, as int16 less the zero point,
// as bytes, or as int16 made of floats. A window is runs of neighbouring numbers, a kernel row or a tap each. Windows
// of one tap without padding are pixels one behind the other, copied or in the image itself.
struct Int8Plan {
  ConvShape shape;
  Int8Output output;
  const std::byte* packed;  // [group][block of output channels][run][unit][block] of 32 bits
  const int32_t* start;     // where sums begin, for the zero point of bytes; [group][whole blocks]
  // Or null: for each row of outputs where its sums begin, as its windows' rows outside the image are left out; of
  // several slices for each image, as its frames outside the volume are.
  const int32_t* const* part_starts;
  const int32_t* shifts;    // or null: what packed weights of a channel are less than the true ones; as `start`
  const int64_t* runs;      // bytes from a window's begin to that of each run
  int64_t run_count, run_units;  // and units of 32 bits in each, weights of 0 where numbers do not fill the last
  int64_t run_pieces, run_numbers;  // pieces that a run of so many numbers was cut into
  int64_t run_block;             // runs multiplied before the next tile is; a panel of their weights stays in L1
  int32_t in_zero;
  float in_scale;  // of inputs that are floats: int16 are these by it, within low and high, and in_zero
  int32_t in_low, in_high;
  bool pixels, in_place;  // windows are pixels; nothing is copied
  int64_t pitch;          // bytes from pixel to pixel where windows are pixels
  int64_t band_row;       // bytes of a copied row of one slice of the input's channels otherwise
  int64_t band_slice;     // and from the copies of a slice to those of the next
  int64_t number_bytes;   // of a number that is multiplied
  int pixel_splits, channel_splits;
  int64_t block_pixels;                    // outputs whose windows are copied together
  // Parts of a worker's workspace; the rest is for copies. `window_bytes` are for the sums of windows that shifts need.
  size_t sums_bytes, list_bytes, window_bytes, worker_bytes;
};

// Rows of the windows of output row y that lie above the image, and below it.
struct RowsOutside {
  int64_t above, below;
  RowsOutside(const ConvShape& s, int64_t y) : above(0), below(0) {
    for (int64_t at = y * s.stride_h - s.pad_top, row = 0; row < s.kernel_h; ++row, at += s.dilation_h)
      above += at < 0, below += at >= s.in_h;
  }
};

// Slices of what an image sees that are frames before the volume's first, and behind its last.
struct FramesOutside {
  int64_t above, below;
  FramesOutside(const ConvShape& s, int64_t image) : above(0), below(0) {
    if (!s.frame) return;
    int64_t at = image * (s.in_image / s.frame) - s.frames_before;
    for (int64_t slice = 0; slice < s.slices; ++slice, at += s.in_slice / s.frame)
      above += at < 0, below += at >= s.frames;
  }
};

// F(2x2, 3x3) in int16, with twice the usual weight transform on either side, so that it stays within integers: sums
// are four times those of the convolution.
struct Int8WinogradPlan {
  ConvShape shape;
  Int8Output output;
  const std::byte* packed;  // [block of output channels][point][pair of channels][block][2] of 16 bits
  const uint8_t* zeros;     // in_c times the zero point
  int32_t in_zero;
  int64_t tiles_h, tiles_w, tiles;  // per image, per image, all images
  int64_t channels;                 // in_c padded to whole vectors of int16
  int64_t blocks;
  bool by_channels;     // workers share all transformed tiles and split output channels; otherwise they split tiles
  int64_t block_tiles;  // tiles transformed and multiplied together
  int64_t v_point, m_point;  // elements from point to point of transformed inputs and of products
  size_t v_bytes, m_bytes;   // one buffer of each
  int v_buffers;
};

constexpr int kWinogradPoints = 16;

// One input channel for each output channel.
struct Int8DepthwisePlan {
  ConvShape shape;
  Int8Output output;
  const int16_t* packed;  // [block of channels][pair of taps][see depthwise_place][2]
  const int32_t* start;   // for each zero point of one; a block in the order of depthwise_place
  int32_t in_zero;
  int64_t zeros_bytes;  // of a pixel of padding, whole blocks; each worker has one in its workspace
  int row_splits, channel_splits;
};

constexpr int kMostTaps = 64;

// Where the weights of a block's channel stand among those of a pair of taps: first all that pair_low yields.
inline int depthwise_place(int lanes, int channel) {
  return channel % 8 / 4 * lanes + channel / 8 * 4 + channel % 4;
}

struct Int8Ops {
  int block, tile_pixels;  // output channels per weight panel, pixels per tile
  // By Int8Form.
  void (*runs[5])(const Int8Plan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
  void (*winograd)(const Int8WinogradPlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
  void (*depthwise)(const Int8DepthwisePlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
};

namespace portable { extern const Int8Ops int8_ops; }
namespace avx2 { extern const Int8Ops int8_ops; }
namespace avx512 { extern const Int8Ops int8_ops; }

}  // namespace tenon::cpu
