// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "ir/graph.h"

/// Bodies of nodes that branch or loop.
namespace tenon::passes {

/// The branch that a constant condition takes in the place of the node.
bool fold_branches(ir::Graph& graph);
/// Loops of one round or of few small ones, as their rounds one behind the other.
bool fold_loops(ir::Graph& graph);
/// Lets nodes capture what their bodies read, and nothing else.
bool drop_captures(ir::Graph& graph);

/// Calls `work` on every body of the graph's nodes, with the types that it has there. Where it returns true the node
/// gets what the body has become. Returns whether one did.
bool each_body(ir::Graph& graph, const std::function<bool(ir::Graph&)>& work);

/// Adds the body's nodes to the graph, with these values in the place of its inputs; returns those of its outputs.
std::vector<ir::ValueId> inline_body(ir::Graph& graph, const ir::Graph& body, const std::vector<ir::ValueId>& inputs);

}  // namespace tenon::passes
