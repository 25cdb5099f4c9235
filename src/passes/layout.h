// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "passes/rewrite.h"

/// The forward walk of layout_nhwc: each value of the graph is known in one or more orders of its axes.
namespace tenon::passes {

class Layout {
 public:
  explicit Layout(ir::Graph& graph) : graph(graph) {}

  /// Visits every node in order and gives the graph's outputs their own order back.
  void run();

  struct Form {
    Perm perm;  // of the original axes
    ir::ValueId value;
  };
  /// The orders that a value of the original graph has, its producer's first.
  std::vector<Form>& forms(ir::ValueId id);
  bool has(ir::ValueId id, const Perm& perm);
  /// The value in the order asked for: a known form, a permuted constant, or one shared Transpose.
  ir::ValueId in_order(ir::ValueId id, const Perm& perm);
  /// The same, for an operand that broadcasts against `rank` axes.
  ir::ValueId broadcast_in_order(ir::ValueId id, const Perm& perm);
  /// The order of these values of one rank that moves the fewest elements; empty when a shape is unknown.
  Perm choose(const std::vector<ir::ValueId>& ids);
  /// Replaces a node by the same op on `inputs` in the order given for its outputs.
  void rewrite(ir::NodeId id, std::vector<ir::ValueId> inputs, ir::Attributes attributes, const Perm& perm,
               const ir::OpId& op = {});

  ir::Graph& graph;

 private:
  std::vector<std::vector<Form>> forms_;
};

/// Tries to carry a node over to permuted operands; false where it needs the order of the original.
bool carry(Layout& layout, ir::NodeId id);
/// The same for a Reshape: axes that are split or joined side by side keep the order.
bool carry_reshape(Layout& layout, ir::NodeId id);

}  // namespace tenon::passes
