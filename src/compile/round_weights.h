// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/build.h>

#include "plan/plan.h"
#include "quant/round_blocks.h"

namespace tenon::compile {

/// Rounds the weights of the products of a plan's optimised graph to integers in blocks. With a calibrator those of 4
/// bits make up for each other's errors on its data (quant/compensate.h), product after product, each on what reaches
/// it through the rounded ones before: `rows`, if not null, gets how many rows of data the least of them saw. Throws
/// Error(usage) for data that does not fit the model.
quant::RoundedWeights round_weights(plan::Plan& plan, const BuildOptions& options, int64_t* rows = nullptr);

}  // namespace tenon::compile
