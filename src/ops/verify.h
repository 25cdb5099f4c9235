// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

namespace tenon::ops {

/// Checks every node of a graph and of its subgraphs against its op: that it exists, counts of inputs and outputs,
/// attributes. Throws Error(invalid_model), or Error(unsupported) for an unknown op, naming the node.
void verify(const ir::Graph& graph);

}  // namespace tenon::ops
