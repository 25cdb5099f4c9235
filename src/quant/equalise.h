// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quant/observations.h"
#include "quant/recipe.h"
#include "quant/structure.h"

namespace tenon::quant {

/// Scale groups whose channels are stored on grids of their own, x / factor, with factors multiplied into the weights
/// of all that read them: channels of small range then lose less beside those of large range. Cross-layer equalisation
/// (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019) and the scales of
/// SmoothQuant (Xiao et al., 2022), without their demand on what lies between two layers.
struct Equalised {
  Factors factors;                        ///< of all values of such a group
  std::map<int, Quantiser> quantisers;    ///< by group: what of x / factor holds everything that was seen
};

/// The groups where the noise expected at the layers that read them falls by a quarter or more: factors are powers
/// (0.25 to 1) of the channels' ranges, with the power of least noise. What rounded weights add counts `caution` times,
/// as averages over positions do not lessen it.
Equalised equalise(const ir::Graph& graph, const Structure& structure, const Observations& seen, double caution);

}  // namespace tenon::quant
