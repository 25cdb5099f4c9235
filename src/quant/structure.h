// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace tenon::quant {

/// What a node is to quantisation, by its op alone.
enum class Role {
  other,     ///< floating point only
  anchor,    ///< a product with constant weights: Conv, MatMul, Gemm
  carries,   ///< moves elements, so that input and output share one scale: Concat, MaxPool, nearest Resize, …
  optional,  ///< has integer forms worth taking between anchors: sums, averages, elementwise programs
};
Role role_of(const ir::Graph& graph, const ir::Node& node);

inline bool is_convolution(const ir::Node& node) { return ops::has_trait(node.op, ops::Trait::convolution); }

/// What recipes call a node: the name of its first output; empty where that is absent.
inline const std::string& result_name(const ir::Graph& graph, const ir::Node& node) {
  static const std::string none;
  return node.outputs.empty() || node.outputs[0] == ir::no_value ? none : graph.value(node.outputs[0]).name;
}

/// Whether a model itself says what is computed on bytes.
bool is_quantised(const ir::Graph& graph);

/// Why an anchor stays in floating point; "" when it does not have to.
using Reasons = std::vector<std::string>;  // per node

/// Which values of an optimised graph are quantised, and which of them share a scale.
struct Structure {
  std::vector<char> integer;  ///< per node: an anchor that computes in integers
  Reasons reasons;
  std::vector<int> group;  ///< per value: its scale group, -1 for a value that stays in floating point
  int groups = 0;
  /// Per value: it decides its group's range, as no carrying node within the group makes it.
  std::vector<char> source;
};

/// In Reasons that are given: the node computes in integers whatever speaks against it.
inline constexpr const char* in_int8 = "int8";

/// The same of a node that a limit to what INT8 loses may take back.
inline constexpr const char* while_it_holds = "int8 while the limit holds";
/// The reason of a convolution without an activation (or with a sigmoid) that no other anchor follows.
inline constexpr const char* bare_output = "it is a bare output convolution";

/// `keep` has a reason for each node that has to stay in floating point whatever the structure says, in_int8 or
/// while_it_holds, and may be empty.
/// What stays besides: bare output convolutions, and anchors fed by a softmax, as the expectation over a distribution
/// that some detectors have.
Structure structure_of(const ir::Graph& graph, const Reasons& keep = {});

}  // namespace tenon::quant
