// SPDX-License-Identifier: Apache-2.0
#include "quant/observations.h"

#include "quant/structure.h"

#include <algorithm>

namespace tenon::quant {

void ChannelSums::grow(size_t channels) {
  if (sum.size() >= channels) return;
  sum.resize(channels), squares.resize(channels);
  low.resize(channels), high.resize(channels);
}

void ChannelSums::merge(const ChannelSums& other) {
  grow(other.sum.size());
  for (size_t at = 0; at < other.sum.size(); ++at) {
    sum[at] += other.sum[at], squares[at] += other.squares[at];
    low[at] = std::min(low[at], other.low[at]), high[at] = std::max(high[at], other.high[at]);
  }
  positions += other.positions;
}

int channel_axis(const ir::Node& anchor) {
  const bool last = !is_convolution(anchor) ||
                    (anchor.text("layout", "NCHW") == "NHWC" && anchor.text("input_layout", "NHWC") == "NHWC");
  return last ? -1 : 1;
}

}  // namespace tenon::quant
