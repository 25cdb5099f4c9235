// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "passes/rewrite.h"

namespace tenon::passes {

/// A convolution of 1x1, channels last, by constant weights [outputs, inputs, 1, 1].
struct Pointwise {
  ir::ValueId from;
  int64_t outputs, inputs;
};

std::optional<Pointwise> pointwise_of(const ir::Graph& graph, ir::NodeId id);

}  // namespace tenon::passes
