// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/layout.h"
#include "passes/passes.h"

namespace tenon::passes {
namespace {

Perm identity(size_t rank) {
  Perm perm(rank);
  for (size_t at = 0; at < rank; ++at) perm[at] = static_cast<int64_t>(at);
  return perm;
}

/// Elements that a value holds, unknown sizes counted as 64.
double weight(const ir::Shape& shape) {
  double product = 1;
  for (const ir::Dim& dim : shape) product *= dim.is_constant() ? static_cast<double>(dim.value()) : 64.0;
  return product;
}

}  // namespace

std::vector<Layout::Form>& Layout::forms(ir::ValueId id) {
  if (forms_.size() < graph.values.size()) forms_.resize(graph.values.size());
  std::vector<Form>& known = forms_[id];
  if (known.empty()) known.push_back({identity(rank_of(graph, id).value_or(0)), id});
  return known;
}

bool Layout::has(ir::ValueId id, const Perm& perm) {
  const auto& known = forms(id);
  return std::any_of(known.begin(), known.end(), [&](const Form& form) { return form.perm == perm; });
}

ir::ValueId Layout::in_order(ir::ValueId id, const Perm& perm) {
  if (id == ir::no_value) return id;
  for (const Form& form : forms(id))
    if (form.perm == perm) return form.value;
  const std::string name = graph.value(id).name;
  ir::ValueId value;
  if (const Tensor* tensor = graph.constant(id)) {
    value = graph.add_constant(name, permuted(*tensor, perm));
  } else {
    const Form from = forms(id).front();
    const ir::Node* maker = graph.producer(from.value);
    const auto origins = maker ? maker->origins : std::vector<std::string>{};
    value = graph.apply("Transpose", {from.value}, {{"perm", compose(inverse(from.perm), perm)}}, origins, name);
  }
  forms(id).push_back({perm, value});
  return value;
}

ir::ValueId Layout::broadcast_in_order(ir::ValueId id, const Perm& perm) {
  if (id == ir::no_value) return id;
  const size_t rank = perm.size();
  const ir::Shape shape = *shape_of(graph, id);
  if (shape.size() == rank) return in_order(id, perm);
  const Perm own = identity(shape.size());
  if (std::all_of(shape.begin(), shape.end(), [](const ir::Dim& dim) { return dim == ir::Dim(1); }))
    return in_order(id, own);
  const size_t missing = rank - shape.size();
  const std::string name = graph.value(id).name;
  if (const Tensor* tensor = graph.constant(id)) {
    Dims dims = tensor->dims();
    for (size_t at = 0; at < missing; ++at) dims.insert(0, 1);
    return graph.add_constant(name, permuted(tensor->reshaped(dims), perm));
  }
  const ir::ValueId axes = constant(graph, name + ".axes", identity(missing));
  const ir::ValueId wide = graph.apply("Unsqueeze", {in_order(id, own), axes}, {}, {}, name + ".wide");
  return graph.apply("Transpose", {wide}, {{"perm", perm}}, {}, name);
}

Perm Layout::choose(const std::vector<ir::ValueId>& ids) {
  Perm best;
  double least = 0;
  for (ir::ValueId candidate : ids) {
    if (graph.constant(candidate)) continue;
    const std::vector<Form> known = forms(candidate);
    for (const Form& form : known) {
      double cost = 0;
      for (ir::ValueId other : ids) {
        const ir::Shape* shape = shape_of(graph, other);
        if (!shape || shape->size() != form.perm.size()) return {};
        if (graph.constant(other) || has(other, form.perm)) continue;
        const Perm move = compose(inverse(forms(other).front().perm), form.perm);
        if (!moves_only_ones(permuted(*shape, forms(other).front().perm), move)) cost += weight(*shape);
      }
      // Of equal costs, an order other than the original's is one that a convolution downstream may want.
      if (best.empty() || cost < least || (cost == least && is_identity(best) && !is_identity(form.perm))) {
        best = form.perm;
        least = cost;
      }
    }
  }
  return best;
}

void Layout::rewrite(ir::NodeId id, std::vector<ir::ValueId> inputs, ir::Attributes attributes, const Perm& perm,
                     const ir::OpId& op) {
  const ir::Node old = graph.node(id);
  std::vector<ir::ValueId> outputs;
  for (ir::ValueId output : old.outputs)
    outputs.push_back(output == ir::no_value ? output
                                             : graph.add_value(graph.value(output).name, graph.value(output).dtype));
  graph.remove(id);
  graph.add_node(op.empty() ? old.op : op, std::move(inputs), outputs, std::move(attributes), old.origins);
  forms_.resize(graph.values.size());
  for (size_t at = 0; at < outputs.size(); ++at)
    if (outputs[at] != ir::no_value) forms_[old.outputs[at]] = {{perm, outputs[at]}};
}

void Layout::run() {
  each_node(graph, [&](ir::NodeId id) {
    if (carry(*this, id)) return true;
    const std::vector<ir::ValueId> inputs = graph.node(id).inputs;
    for (size_t at = 0; at < inputs.size(); ++at)
      if (inputs[at] != ir::no_value)
        graph.set_input(id, at, in_order(inputs[at], identity(rank_of(graph, inputs[at]).value_or(0))));
    return false;
  });
  for (ir::ValueId& output : graph.outputs) output = in_order(output, identity(rank_of(graph, output).value_or(0)));
}

bool layout_nhwc(ir::Graph& graph) {
  const bool wanted = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
    const bool convolves = node.op == "Conv" || node.op == "ConvTranspose" || node.op == "ConvInteger";
    return node.alive && convolves && !node.has("layout") && rank_of(graph, node.inputs[0]) == 4u;
  });
  if (wanted) Layout(graph).run();
  return wanted;
}

}  // namespace tenon::passes
