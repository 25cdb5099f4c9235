// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::passes {

/// A Gelu that small nodes compute.
struct GeluPattern {
  ir::ValueId x;
  std::string approximate;  // "none": by erf, "tanh": by tanh of a cubic
  std::vector<std::string> origins;
};

/// What `last` is the end of: 0.5 x (1 + erf(x / sqrt 2)) or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in
/// whichever order and grouping its sums and products stand; nullopt: of no Gelu.
std::optional<GeluPattern> find_gelu(const ir::Graph& graph, const ir::Node& last);

}  // namespace tenon::passes
