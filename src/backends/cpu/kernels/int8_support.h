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
               conv.residual_zero, conv.inverse_scale, conv.out_zero, conv.sums};
  }
  const Int8Output& output() const { return output_; }

 private:
  AlignedFloats multiplier_, bias_;
  Int8Output output_;
};

}  // namespace tenon::cpu
