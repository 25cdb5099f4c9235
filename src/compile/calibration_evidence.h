// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/search.h"

namespace tenon::compile {

/// What `why` and its audit tell of a calibration. `structure` is that of the graph as a whole, `errors` are its
/// errors_alone.
plan::Evidence evidence_of(const CalibrationContext& context, const quant::Structure& structure,
                           const std::vector<double>& errors, const quant::Recipe& recipe);

/// The evidence of a recipe for a plan of another one that quantises less of the same graph.
plan::Evidence evidence_as_placed(const ir::Graph& graph, const quant::Recipe& recipe, const quant::Recipe& placed);

}  // namespace tenon::compile
