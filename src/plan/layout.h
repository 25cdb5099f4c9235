// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>
#include <vector>

#include "plan/plan.h"

/// How a layout is decided, in two parts: what a graph says for all sizes, and what sizes say.
namespace tenon::plan {

/// What of a graph decides where its values lie, read once.
struct LayoutFacts {
  enum class Kind : uint8_t { other, view, concat, split, slice, transpose };
  struct Node {
    Kind kind = Kind::other;
    bool elementwise = false;
    bool transposed_view = false;   // a Transpose that attention alone reads
    bool factor = false;            // a Transpose that batched products alone read
    bool transposed_write = false;  // a Transpose of what attention writes
    bool product_write = false;     // a Transpose of what a batched product writes for it alone
    bool device_write = false;      // a Transpose of what devices alone write in any order
    int64_t axis = 0;
    std::vector<int64_t> perm = {};
  };
  std::vector<Node> nodes;
  std::vector<int> depths;
  std::vector<char> whole;  // per value: whether a node that runs bodies reads or writes it
};
LayoutFacts layout_facts(const ir::Graph& graph);

/// Elements of constants that are others than the graph's.
using Decided = std::vector<std::pair<ir::ValueId, Tensor>>;

struct LayoutRequest {
  const ir::Graph& graph;
  const LayoutFacts& facts;
  const Decided& decided;
  bool by_depth = false, host_memory = true;
  const std::vector<int>* placement = nullptr;
  const std::vector<backends::Storage>* known = nullptr;  // of the same graph, at other sizes
};
/// lay_out() for these sizes, by value.
Layout lay_out(const LayoutRequest& request, const std::vector<Dims>& sizes);

}  // namespace tenon::plan
