// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/int8_blocks.h"

namespace tenon::cuda {
namespace {

constexpr int64_t most_channels = 256;

Int8Conv conv_of(const Problem& problem) {
  Int8Conv conv;
  int8_conv(problem, conv);
  return conv;
}

}  // namespace

Int8Blocks::Int8Blocks(const Problem& from) : Int8Blocks(conv_of(from)) {}

std::vector<int8_t> Int8Blocks::weights(const Problem& from) const {
  const std::vector<int8_t> given = int8_weights(from, shape);
  std::vector<int8_t> list(static_cast<size_t>(shape.out_c * taps_h * taps_w * channels), 0);
  size_t at = 0;
  for (const Place& place : places())
    list[((place.n * taps_h + place.tap_h) * taps_w + place.tap_w) * channels + place.channel] = given[at++];
  return list;
}

Reason refuses_int8_blocks(const Problem& problem, ConvShape& shape) {
  if (const Reason reason = int8_shape(problem, shape)) return reason;
  if (const Reason reason = refuses_blocks(problem, shape, most_channels)) return reason;
  return shape.batch * (shape.in_h + 256) * (shape.in_w + 256) >= int64_t{1} << 31 ? Reason(Reason::too_large)
                                                                                   : Reason();
}

}  // namespace tenon::cuda
