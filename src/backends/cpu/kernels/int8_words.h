// What the baseline halves (int8_words.cpp, int8_winograd.cpp) and the per-instruction-set halves of the integer
// convolutions on 16-bit operands share. Products are of 16 bits, sums of 32; both are exact.
#pragma once

#include "backends/cpu/kernels/int8.h"

namespace tenon::cpu {

// Windows are copied as words less the zero point, so that padding is 0; then it is a product of matrices.
struct WordsPlan {
  ConvShape shape;
  Int8Output output;
  const int16_t* packed;  // [group][block of output channels][k / 2][block][2]
  int32_t in_zero;
  int64_t k;        // taps times channels of a group, padded to a multiple of kWordsStep
  int64_t k_block;  // multiplied before the next tile is; a panel of it stays in L1
  int pixel_splits, channel_splits;
  int64_t block_pixels;  // copied together
  size_t worker_bytes;
};

// F(2x2, 3x3) with twice the usual weight transform on either side, so that it stays within integers: sums are four
// times those of the convolution.
struct Int8WinogradPlan {
  ConvShape shape;
  Int8Output output;
  const int16_t* packed;  // [block of output channels][point][channels / 2][block][2]
  const uint8_t* zeros;   // in_c times the zero point
  int32_t in_zero;
  int64_t tiles_h, tiles_w, tiles;  // per image, per image, all images
  int64_t channels;                 // in_c padded to whole vectors of words
  int64_t blocks;
  bool by_channels;     // workers share all transformed tiles and split output channels; otherwise they split tiles
  int64_t block_tiles;  // tiles transformed and multiplied together
  int64_t v_point, m_point;  // elements from point to point of transformed inputs and of products
  size_t v_bytes, m_bytes;   // one buffer of each
  int v_buffers;
};

constexpr int kWordsStep = 8;
constexpr int kWinogradPoints = 16;

struct WordsOps {
  int tile_pixels;
  void (*run)(const WordsPlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
  size_t (*worker_bytes)(const WordsPlan&);
  void (*winograd)(const Int8WinogradPlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
};

namespace portable { extern const WordsOps words_ops; }
namespace avx2 { extern const WordsOps words_ops; }
namespace avx512 { extern const WordsOps words_ops; }

}  // namespace tenon::cpu
