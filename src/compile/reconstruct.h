// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/search.h"

namespace tenon::compile {

/// The recipe with weights rounded up or down so that the sums of each layer come nearest to those in floating point,
/// on windows of the probes as they reach it through the quantised layers before: coordinate descent on the squared
/// error, from the nearest integers on, with biases that undo what mean error remains. The objective is that of Nagel
/// et al., Up or Down? Adaptive Rounding for Post-Training Quantization, 2020, and of Frantar and Alistarh, 2022
/// (arXiv:2208.11580).
quant::Recipe reconstruct(const CalibrationContext& context, quant::Recipe recipe);

}  // namespace tenon::compile
