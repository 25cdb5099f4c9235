// SPDX-License-Identifier: Apache-2.0
#include "ops/op.h"

#include <tenon/error.h>

#include <map>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "ir/limits.h"
#include "ops/control_flow.h"
#include "ops/verify.h"

namespace tenon::ops {

void fail_at(const ir::Node& node, const std::string& why, const std::string& hint) {
  throw Error(Code::invalid_model, "node \"" + node.label() + "\" (" + node.op + ") is invalid",
              {.where = "node " + node.label(), .why = why, .hint = hint, .node = node.label()});
}

namespace {

std::map<ir::OpId, OpDef>& registry() {
  static std::map<ir::OpId, OpDef> ops;
  return ops;
}

[[noreturn]] void refuse_unknown(const ir::Node& node) {
  throw Error(Code::unsupported, "op " + node.op + " is not supported",
              {.where = "node " + node.label(),
               .hint = "where a plugin has it, load that first (--plugin)",
               .node = node.label()});
}

std::string more_than(int least, int most) {
  return most < 0 ? " or more" : most == least ? "" : " to " + std::to_string(most);
}

/// Errors of arithmetic and memory do not know their node.
template <class Work>
void named(const ir::Node& node, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.what(),
                {.where = "node " + node.label() + " (" + node.op + ")",
                 .why = error.why(),
                 .hint = error.hint(),
                 .node = node.label()});
  }
}

}  // namespace

Registrar::Registrar(OpDef op) {
  const ir::OpId id = op.id;
  TENON_CHECK(registry().emplace(id, std::move(op)).second, "op registered twice: " + id);
}

const OpDef* find(const ir::OpId& op) {
  const auto found = registry().find(op);
  return found == registry().end() ? nullptr : &found->second;
}

bool has_trait(const ir::OpId& op, Trait trait) {
  const OpDef* found = find(op);
  return found && found->traits.has(trait);
}

bool has_trait(const ir::Node& node, Trait trait) {
  const OpDef* found = find(node.op);
  return found && found->traits.of(node).has(trait);
}

Traits traits_of(const ir::OpId& op) {
  const OpDef* found = find(op);
  return found ? found->traits : Traits();
}

std::vector<const OpDef*> all() {
  std::vector<const OpDef*> all;
  for (const auto& [id, op] : registry()) all.push_back(&op);
  return all;
}

DType Inference::dtype(size_t input) const {
  return has(input) ? graph_.value(node().inputs[input]).dtype : DType::undefined;
}

const ir::Shape* Inference::shape(size_t input) const {
  if (!has(input)) return nullptr;
  const auto& shape = graph_.value(node().inputs[input]).shape;
  return shape ? &*shape : nullptr;
}

const Tensor* Inference::constant(size_t input) const {
  return has(input) ? graph_.constant(node().inputs[input]) : nullptr;
}

std::optional<std::vector<int64_t>> Inference::integers(size_t input) const {
  const Tensor* tensor = constant(input);
  if (!tensor) return std::nullopt;
  std::vector<int64_t> values;
  if (tensor->dtype() == DType::i64)
    values.assign(tensor->data<int64_t>(), tensor->data<int64_t>() + tensor->elements());
  else if (tensor->dtype() == DType::i32)
    values.assign(tensor->data<int32_t>(), tensor->data<int32_t>() + tensor->elements());
  else fail("input " + std::to_string(input) + " must hold i32 or i64, not " + std::string(name(tensor->dtype())));
  return values;
}

std::optional<std::vector<ir::Dim>> Inference::content(size_t input) const {
  if (!has(input)) return std::nullopt;
  if (const Tensor* tensor = constant(input)) {
    const bool is_integer = tensor->dtype() == DType::i64 || tensor->dtype() == DType::i32;
    if (!is_integer || tensor->dims().rank() > 1 || tensor->elements() > 64) return std::nullopt;
    const auto values = integers(input);
    return std::vector<ir::Dim>(values->begin(), values->end());
  }
  return graph_.value(node().inputs[input]).content;
}

void Inference::set(size_t output, DType dtype, std::optional<ir::Shape> shape) {
  if (output >= outputs() || node().outputs[output] == ir::no_value) return;
  if (shape) {
    if (shape->size() > Dims::max_rank)
      fail("an output of rank " + std::to_string(shape->size()) + " is above the limit of 8");
    for (const ir::Dim& dim : *shape)
      if (dim.is_constant() && dim.value() < 0) fail("an output size is negative: " + ir::str(*shape));
    // A sum of a hundred sizes says no more than a new one.
    for (ir::Dim& dim : *shape)
      if (!dim.is_constant() && dim.str().size() > ir::max_dim_text) dim = unknown();
  }
  ir::Value& value = graph_.value(node().outputs[output]);
  value.dtype = dtype;
  value.shape = std::move(shape);
}

void Inference::set_content(size_t output, std::vector<ir::Dim> content) {
  if (output >= outputs() || node().outputs[output] == ir::no_value) return;
  graph_.value(node().outputs[output]).content = std::move(content);
}

ir::Dim Inference::unknown() {
  // Named after the value, so that a second inference gives the same symbol.
  const ir::ValueId first = node().outputs.empty() ? ir::no_value : node().outputs[0];
  const std::string name = first == ir::no_value ? node().label() : graph_.value(first).name;
  return ir::Dim::symbol("?" + name + (unknowns_++ ? "?" + std::to_string(unknowns_) : ""));
}

void Inference::fail(const std::string& why, const std::string& hint) const { fail_at(node(), why, hint); }

Tensor& Evaluation::output(size_t at, DType dtype, const Dims& dims) {
  Tensor& filled = slot(at);
  if (!filled || filled.dtype() != dtype || !(filled.dims() == dims) || dtype == DType::string)
    filled = Tensor(dtype, dims);
  return filled;
}

std::vector<int64_t> Evaluation::integers(size_t input) const {
  const Tensor& tensor = this->input(input);
  if (tensor.dtype() == DType::i64) return {tensor.data<int64_t>(), tensor.data<int64_t>() + tensor.elements()};
  if (tensor.dtype() == DType::i32) return {tensor.data<int32_t>(), tensor.data<int32_t>() + tensor.elements()};
  fail("input " + std::to_string(input) + " must hold i32 or i64, not " + std::string(name(tensor.dtype())));
}

void Evaluation::fail(const std::string& why, const std::string& hint) const { fail_at(node_, why, hint); }

namespace {

const OpDef& definition(const ir::Node& node) {
  const OpDef* op = find(node.op);
  if (!op) refuse_unknown(node);
  return *op;
}

/// Counts and attributes, which everything else relies on.
const OpDef& checked(const ir::Node& node) {
  const OpDef& op = definition(node);
  const int inputs = static_cast<int>(node.inputs.size()), outputs = static_cast<int>(node.outputs.size());
  if (inputs < op.min_inputs || (op.max_inputs >= 0 && inputs > op.max_inputs))
    fail_at(node,
            "it has " + counted(inputs, "input") + "; " + node.op + " takes " + std::to_string(op.min_inputs) +
                more_than(op.min_inputs, op.max_inputs),
            "");
  if (outputs < op.min_outputs || (op.max_outputs >= 0 && outputs > op.max_outputs))
    fail_at(node,
            "it has " + counted(outputs, "output") + "; " + node.op + " gives " + std::to_string(op.min_outputs) +
                more_than(op.min_outputs, op.max_outputs),
            "");
  // Of any number of inputs none is absent but a Loop's first two.
  const int needed = op.max_inputs < 0 ? inputs : op.min_inputs;
  for (int at = op.min_inputs > 0 ? 0 : 2; at < needed; ++at)
    if (node.inputs[at] == ir::no_value) fail_at(node, "required input " + std::to_string(at) + " is missing", "");
  if (op.checks_attributes)
    if (const std::string fault = fault_of(op.attributes, node); !fault.empty()) fail_at(node, fault, "");
  return op;
}

}  // namespace

void verify(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    checked(node);
    for (const auto& [name, attribute] : node.attributes)
      if (const auto* inner = std::get_if<ir::GraphRef>(&attribute); inner && *inner) ops::verify(**inner);
  }
}

namespace {

/// What only has another shape has as many elements, whatever decided that shape: kernels copy all of the input.
void check_view(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.empty() || node.inputs[0] == ir::no_value || node.outputs[0] == ir::no_value) return;
  const auto &from = graph.value(node.inputs[0]).shape, &to = graph.value(node.outputs[0]).shape;
  if (!from || !to || !ir::is_constant(*from) || !ir::is_constant(*to)) return;
  if (!(ir::product(*from) == ir::product(*to)))
    fail_at(node, "a tensor " + ir::str(*from) + " cannot take the shape " + ir::str(*to), "");
}

}  // namespace

void infer(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const OpDef& op = checked(node);
  Inference inference(graph, id);
  named(node, [&] {
    op.infer(inference);
    if (op.traits.has(Trait::view)) check_view(graph, node);
  });
}

void infer(ir::Graph& graph) {
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    if (graph.nodes[id].alive) infer(graph, id);
}

namespace {

/// A body whose inputs stay inputs where they are known, beside constants that its nodes read in their place. What a
/// size was called outside says nothing inside, where another may be called so.
ir::Graph keep_inputs(ir::Graph body) {
  std::map<std::string, ir::Dim> sizes;
  for (const ir::ValueId input : body.inputs) {
    if (ir::Value& value = body.value(input); value.shape)
      for (ir::Dim& dim : *value.shape)
        if (const std::string name = dim.str(); name.find('?') != std::string::npos)
          dim = sizes.try_emplace(name, ir::Dim::symbol("?in" + std::to_string(sizes.size()))).first->second;
    body.value(input).content.reset();
    if (!body.value(input).is_constant()) continue;
    const Tensor constant = std::exchange(body.value(input).constant, Tensor());
    body.replace_uses(input, body.add_constant(body.value(input).name + ".known", constant));
  }
  return body;
}

}  // namespace

std::map<std::string, ir::Graph> infer_bodies(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  std::map<const ir::Graph*, ir::Graph> bodies;
  {
    const BodyCollector collector(bodies);
    infer(graph, id);
  }
  std::map<std::string, ir::Graph> named_bodies;
  for (const auto& [name, attribute] : node.attributes)
    if (const auto* body = std::get_if<ir::GraphRef>(&attribute))
      if (const auto found = bodies.find(body->get()); found != bodies.end())
        named_bodies.emplace(name, keep_inputs(found->second));
  return named_bodies;
}

void evaluate(const ir::Node& node, std::span<const Tensor> inputs, std::span<Tensor> outputs, const RunBody& run) {
  const OpDef& op = definition(node);
  // An operand may turn out to be an empty optional. Ops of one operand see for themselves.
  for (int at = 0; op.min_inputs > 1 && at < op.min_inputs && at < static_cast<int>(inputs.size()); ++at)
    if (!inputs[at]) fail_at(node, "required input " + std::to_string(at) + " is missing", "");
  Evaluation evaluation(node, inputs, outputs, run);
  named(node, [&] { op.evaluate(evaluation); });
}

void evaluate(const ir::Node& node, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  static const RunBody run = [](const ir::Graph& graph, std::vector<Tensor> values) {
    return interpret(graph, std::move(values));
  };
  evaluate(node, inputs, outputs, run);
}

std::vector<Tensor> evaluate(const ir::Node& node, std::span<const Tensor> inputs) {
  std::vector<Tensor> outputs(node.outputs.size());
  evaluate(node, inputs, outputs);
  return outputs;
}

std::vector<Tensor> interpret(const ir::Graph& graph, std::vector<Tensor> inputs) {
  if (inputs.size() != graph.inputs.size())
    throw Error(Code::usage,
                "the graph takes " + counted(graph.inputs.size(), "input") + ", not " + std::to_string(inputs.size()));
  std::vector<Tensor> values(graph.values.size());
  std::vector<size_t> uses(graph.values.size());
  for (size_t id = 0; id < graph.values.size(); ++id) {
    values[id] = graph.values[id].constant;
    uses[id] = graph.values[id].users.size();
  }
  for (size_t at = 0; at < inputs.size(); ++at) values[graph.inputs[at]] = std::move(inputs[at]);
  for (ir::ValueId output : graph.outputs) ++uses[output];
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    std::vector<Tensor> operands;
    for (ir::ValueId input : node.inputs) operands.push_back(input == ir::no_value ? Tensor() : values[input]);
    std::vector<Tensor> results = evaluate(node, operands);
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (node.outputs[at] != ir::no_value) values[node.outputs[at]] = std::move(results[at]);
    for (ir::ValueId input : node.inputs)
      if (input != ir::no_value && --uses[input] == 0) values[input] = Tensor();
  }
  std::vector<Tensor> results;
  for (ir::ValueId output : graph.outputs) results.push_back(values[output]);
  return results;
}

}  // namespace tenon::ops
