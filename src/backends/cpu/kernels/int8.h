// What the baseline half (int8.cpp) and the per-instruction-set half (int8_isa.cpp) of the integer convolution share.
// Every result is the same on every instruction set and for every number of workers, bit for bit: sums are exact, and
// the float steps after them are single IEEE operations in one order.
#pragma once

#include "backends/cpu/kernels/windows.h"

namespace tenon::cpu {

// From an exact sum to an output: x = sum * multiplier + bias, then residual and activation as the epilogue says, then
// round(x * inverse_scale) + out_zero within a byte; ties go to even.
struct Int8Output {
  Epilogue epilogue;
  const float* multiplier;  // input scale times weight scale; [group][whole blocks]
  const float* bias;        // likewise
  float residual_scale;
  int32_t residual_zero;
  float inverse_scale;  // 0: the output is f32, x itself
  int32_t out_zero;
};

struct Int8Plan : WindowPlan {
  Int8Output output;
  const int8_t* packed;      // [group][block of output channels][K / 4][output channel][4]
  const int32_t* start;      // where sums begin, for the zero point of the input; [group][whole blocks]
  int pixel_splits, channel_splits;
  int block_tiles;
  size_t worker_bytes;
};

// How four bytes of K are multiplied.
enum class Int8Form : uint8_t {
  pairs,  // vpmaddubsw, where no two neighbouring weights can leave 16 bits
  dot     // vpdpbusd, any weights
};

struct Int8FormOps {
  int tile_pixels;
  size_t (*worker_bytes)(const Int8Plan&);
  void (*run)(const Int8Plan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
};

// One input channel for each output channel.
struct Int8DepthwisePlan {
  ConvShape shape;
  Int8Output output;
  const int16_t* packed;  // [block of channels][pair of taps][see depthwise_place][2]
  const int32_t* start;   // as in Int8Plan; a block in the order of depthwise_place
  const uint8_t* zeros;   // a pixel of padding, whole blocks
  int row_splits, channel_splits;
};

constexpr int kMostTaps = 64;

// Where the weights of a block's channel stand among those of a pair of taps: first all that pair_low yields.
inline int depthwise_place(int lanes, int channel) {
  return channel % 8 / 4 * lanes + channel / 8 * 4 + channel % 4;
}

struct Int8Ops {
  int block;  // output channels per weight panel
  Int8FormOps pairs, dot;
  void (*depthwise)(const Int8DepthwisePlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
};

namespace portable { extern const Int8Ops int8_ops; }
namespace avx2 { extern const Int8Ops int8_ops; }
namespace avx512 { extern const Int8Ops int8_ops; }

}  // namespace tenon::cpu
