// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "ir/graph.h"

/// Bodies of nodes that branch or loop.
namespace tenon::passes {

/// Calls `work` on every body of the graph's nodes, with the types that it has there. Where it returns true the node
/// gets what the body has become. Returns whether one did.
bool each_body(ir::Graph& graph, const std::function<bool(ir::Graph&)>& work);

/// Adds the body's nodes to the graph, with these values in the place of its inputs; returns those of its outputs.
std::vector<ir::ValueId> inline_body(ir::Graph& graph, const ir::Graph& body, const std::vector<ir::ValueId>& inputs);

}  // namespace tenon::passes
