// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/convolution/convolution.h"

/// Convolutions on wgmma whose weights another kernel writes while the network runs, such as those of 4 bits.
namespace tenon::cuda::conv_wgmma {

/// None: tactics_of() has some. The problem's inputs are those of a Conv; of the weights nothing is asked.
Reason refuses_shape(const Problem& problem, const ConvShape& shape, const Properties& properties);
std::vector<Tactic> tactics_of(const Problem& problem, const ConvShape& shape, const Properties& properties);

/// Weights as the step of a tactic reads them: `depth` elements of the pixels' type for each of the rows. A row has the
/// weights of its channel, and zeros behind them; all zeros where there is no such channel.
struct WeightRows {
  std::vector<int64_t> channels;
  int64_t depth;
};
WeightRows weight_rows(const ConvShape& shape, const Tactic& tactic);
/// The step reads the rows as its input 1. It may read them before the step in front of it has ended: EventWait.
std::unique_ptr<Step> make_for_run_weights(const Problem& problem, const ConvShape& shape, Device& device,
                                           const Tactic& tactic);

}  // namespace tenon::cuda::conv_wgmma
