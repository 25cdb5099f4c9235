// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/control_flow.h"
#include "ops/op.h"
#include "passes/bodies.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_rounds = 4, most_nodes = 16;  // of a loop that is unrolled; a round costs less than a kernel

Tensor number(int64_t value) { return Tensor::of<int64_t>(DType::i64, {}, std::vector<int64_t>{value}); }
Tensor truth() { return Tensor::of<uint8_t>(DType::boolean, {}, std::vector<uint8_t>{1}); }

/// How often a loop that counts runs, where nothing but a constant decides that.
std::optional<int64_t> rounds_of(const ir::Graph& graph, const ir::Node& node, const ir::Graph& body) {
  if (node.inputs[1] != ir::no_value) {
    const auto condition = scalar(graph, node.inputs[1]);
    if (!condition) return std::nullopt;
    if (*condition == 0) return 0;
  }
  if (node.inputs[0] == ir::no_value || !ops::always_goes_on(body)) return std::nullopt;
  const auto trips = integers(graph, node.inputs[0]);
  if (!trips || trips->size() != 1) return std::nullopt;
  return std::max<int64_t>(0, trips->front());
}

bool pays(const ir::Graph& body, int64_t rounds) {
  if (rounds < 2) return true;
  return rounds <= most_rounds && static_cast<int64_t>(body.nodes.size()) * rounds <= most_nodes &&
         std::none_of(body.nodes.begin(), body.nodes.end(), has_subgraph);
}

}  // namespace

bool fold_loops(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    const auto form = ops::loop_form(node);
    if (!form || !form->counts) return false;
    const ir::Graph body = *node.graph("body");
    const auto rounds = rounds_of(graph, node, body);
    // What no round gives has the sizes that the body promises, which may not be known.
    if (!rounds || (*rounds == 0 && form->scans > 0) || !pays(body, *rounds)) return false;
    std::vector<ir::ValueId> values(node.inputs.begin(), node.inputs.end());
    std::vector<std::vector<ir::ValueId>> scans(form->scans);
    for (int64_t round = 0; round < *rounds; ++round) {
      values[0] = graph.add_constant(node.label() + ".round", number(round));
      values[1] = graph.add_constant(node.label() + ".entered", truth());
      const std::vector<ir::ValueId> results = inline_body(graph, body, values);
      for (size_t at = 0; at < form->carried; ++at) values[2 + at] = results[1 + at];
      for (size_t at = 0; at < form->scans; ++at) {
        const ir::ValueId axis = constant(graph, node.label() + ".axis", {0});
        scans[at].push_back(
            graph.apply("Unsqueeze", {results[form->first_scan() + at], axis}, {}, node.origins, node.label()));
      }
    }
    for (size_t at = 0; at < node.outputs.size(); ++at) {
      if (node.outputs[at] == ir::no_value) continue;
      const ir::ValueId result = at < form->carried ? values[2 + at]
                                                    : graph.apply("Concat", scans[at - form->carried],
                                                                  {{"axis", int64_t{0}}}, node.origins, node.label());
      graph.replace_uses(node.outputs[at], result);
    }
    graph.remove(id);
    return true;
  });
}

}  // namespace tenon::passes
