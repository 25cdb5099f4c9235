// What the baseline halves of the integer convolutions share.
#pragma once

#include <algorithm>

#include "backends/cpu/kernels/int8.h"
#include "backends/cpu/kernels/int8_tactics.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

inline int64_t group_in(const ConvShape& s) { return s.in_c / s.groups; }
inline int64_t group_out(const ConvShape& s) { return s.out_c / s.groups; }

// Calls f(group, block, k, channel of the block, weight), k being tap times channels plus channel.
template <class F>
void each_weight(const Int8Conv& conv, int64_t block, const F& f) {
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), out = group_out(s), taps = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t o = 0; o < s.out_c; ++o)
    for (int64_t i = 0; i < c; ++i)
      for (int64_t tap = 0; tap < taps; ++tap)
        f(o / out, o % out / block, tap * c + i, static_cast<int>(o % out % block),
          conv.weights[(o * c + i) * taps + tap]);
}

// Int8Output with lists of whole blocks for each group.
class Int8Lists {
 public:
  Int8Lists(const Int8Conv& conv, int64_t block) {
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(group_out(s), block);
    multiplier_ = AlignedFloats(padded * s.groups);
    bias_ = AlignedFloats(padded * s.groups);
    for (int64_t o = 0; o < s.out_c; ++o) {
      const int64_t at = o / group_out(s) * padded + o % group_out(s);
      multiplier_[at] = conv.multiplier[o];
      bias_[at] = conv.bias ? conv.bias[o] : 0;
    }
    output_ = {conv.epilogue,      multiplier_.data(), bias_.data(),  conv.residual_scale,
               conv.residual_zero, conv.inverse_scale, conv.out_zero};
  }
  const Int8Output& output() const { return output_; }

 private:
  AlignedFloats multiplier_, bias_;
  Int8Output output_;
};

// How workers cut tiles of pixels and blocks of channels, and tiles that are taken together.
struct Int8Split {
  int pixels, channels;
  int64_t tiles;
};

// As DirectKernel cuts its work; `tile_bytes` of input for a tile.
inline Int8Split split_work(const ConvShape& s, int tile_pixels, int block, int64_t k, int64_t weight_bytes,
                            int64_t tile_bytes, int threads) {
  constexpr int64_t small_block = 24 << 10, large_block = 128 << 10, resident = 256 << 10, least = 4, most = 170;
  const int64_t tiles = ceil_div(s.batch * s.out_h * s.out_w, tile_pixels);
  const int64_t blocks = ceil_div(group_out(s), block) * s.groups, inputs = s.batch * s.in_h * s.in_w * s.in_c;
  Int8Split split{};
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int m = threads / n;
    const int64_t cost = ceil_div(tiles, m) * ceil_div(blocks, n) * k * tile_pixels / 2 + weight_bytes / n / 8 +
                         inputs / m / (n > 1 ? 4 : 8);
    if (cost >= best) continue;
    best = cost;
    split.pixels = m;
    split.channels = n;
  }
  const int64_t target = weight_bytes / split.channels <= resident ? small_block : large_block;
  split.tiles = std::min(std::min(most, ceil_div(tiles, split.pixels)), std::max(least, target / tile_bytes));
  return split;
}

}  // namespace tenon::cpu
