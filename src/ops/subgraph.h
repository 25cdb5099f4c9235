// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/counted.h"
#include "ops/control_flow.h"
#include "ops/inference.h"
#include "ops/window.h"

/// Inference through the subgraphs of If, Loop, Scan and SequenceMap.
namespace tenon::ops {

/// Set by the importer: see ir::Graph.
inline AttributeDefs captures_attribute() { return {attr::integer("captures").at_least(0).internal()}; }

/// What is known of a value on either side of a subgraph's border.
struct Known {
  DType dtype = DType::undefined;
  std::optional<ir::Shape> shape;
  std::optional<std::vector<ir::Dim>> content;
  Tensor constant;
};

inline Known known_input(const Inference& ctx, size_t input) {
  Known known{ctx.dtype(input), {}, ctx.content(input), {}};
  if (const ir::Shape* shape = ctx.shape(input)) known.shape = *shape;
  if (const Tensor* tensor = ctx.constant(input)) known.constant = *tensor;
  return known;
}

template <class Context>
const ir::Graph& subgraph(Context& ctx, const char* attribute, size_t inputs, size_t outputs) {
  const std::string name = attribute;
  if (!ctx.node().has(name)) ctx.fail("the subgraph " + name + " is absent");
  const ir::GraphRef* graph = std::get_if<ir::GraphRef>(&ctx.node().attributes.at(name));
  if (!graph || !*graph) ctx.fail("the attribute " + name + " is no graph");
  if ((*graph)->inputs.size() != inputs)
    ctx.fail("the subgraph " + name + " takes " + counted((*graph)->inputs.size(), "value") + " and is given " +
             std::to_string(inputs));
  if ((*graph)->outputs.size() < outputs)
    ctx.fail("the subgraph " + name + " gives " + counted((*graph)->outputs.size(), "value") + "; " +
             std::to_string(outputs) + " are needed");
  return **graph;
}

/// What a subgraph gives for inputs of which this is known. Symbols made up inside it are unique only there, so they
/// come out renamed.
inline std::vector<Known> infer_subgraph(Inference& ctx, const ir::Graph& graph, const std::vector<Known>& inputs) {
  ir::Graph copy = graph;
  for (size_t at = 0; at < inputs.size(); ++at) {
    ir::Value& value = copy.value(copy.inputs[at]);
    if (inputs[at].dtype != DType::undefined) {
      value.dtype = inputs[at].dtype;
      value.shape = inputs[at].shape;
    }
    value.content = inputs[at].content;
    value.constant = inputs[at].constant;
  }
  infer(copy);
  std::vector<Known> outputs;
  for (size_t at = 0; at < copy.outputs.size(); ++at) {
    const ir::Value& value = copy.value(copy.outputs[at]);
    Known known{value.dtype, value.shape, value.content, value.constant};
    for (size_t axis = 0; known.shape && axis < known.shape->size(); ++axis) {
      ir::Dim& dim = (*known.shape)[axis];
      if (dim.str().find('?') != std::string::npos)
        dim = tagged_unknown(ctx, "o" + std::to_string(at) + "_" + std::to_string(axis));
    }
    if (known.content && value.dtype != DType::sequence) known.content.reset();
    outputs.push_back(std::move(known));
  }
  BodyCollector::note(graph, std::move(copy));
  return outputs;
}

/// What holds for both: equal sizes stay, others become unknown, different ranks give no shape. Fails the node where
/// their element types differ.
inline Known merge(Inference& ctx, const Known& a, const Known& b, const std::string& tag) {
  want_same_dtype(ctx, a.dtype, b.dtype);
  Known both{a.dtype == DType::undefined ? b.dtype : a.dtype, {}, {}, {}};
  if (a.content == b.content) both.content = a.content;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return both;
  both.shape = a.shape;
  for (size_t axis = 0; axis < a.shape->size(); ++axis)
    if (!((*a.shape)[axis] == (*b.shape)[axis]))
      (*both.shape)[axis] = tagged_unknown(ctx, tag + "_" + std::to_string(axis));
  return both;
}

inline void set_known(Inference& ctx, size_t output, const Known& known) {
  ctx.set(output, known.dtype, known.dtype == DType::sequence ? std::nullopt : known.shape);
  if (known.content) ctx.set_content(output, *known.content);
}

inline int64_t capture_count(const ir::Node& node) { return node.integer("captures", 0); }

/// Joins equal tensors along a new axis. `empty` gives type and sizes when there are none.
template <class Context>
Tensor stack(Context& ctx, const std::vector<Tensor>& items, size_t axis, bool reversed, const ir::Value& empty) {
  if (items.empty()) {
    Dims dims;
    for (size_t at = 0; empty.shape && at < empty.shape->size(); ++at)
      dims.push_back((*empty.shape)[at].is_constant() ? (*empty.shape)[at].value() : 0);
    dims.insert(std::min(axis, dims.rank()), 0);
    return Tensor(empty.dtype == DType::undefined ? DType::f32 : empty.dtype, dims);
  }
  Dims dims = items[0].dims();
  if (axis > dims.rank()) ctx.fail("a scan output axis is outside its rank");
  int64_t outer = 1;
  for (size_t at = 0; at < axis; ++at) outer *= dims[at];
  const auto count = static_cast<int64_t>(items.size());
  dims.insert(axis, count);
  Tensor joined(items[0].dtype(), dims);
  for (int64_t at = 0; at < count; ++at) {
    const Tensor& item = items[static_cast<size_t>(reversed ? count - 1 - at : at)];
    if (item.dtype() != items[0].dtype() || !(item.dims() == items[0].dims()))
      ctx.fail("scan outputs of different rounds differ in shape");
    const int64_t elements = outer ? item.elements() / outer : 0;
    if (item.dtype() == DType::string) {
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < elements; ++i)
          joined.strings()[(o * count + at) * elements + i] = item.strings()[o * elements + i];
      continue;
    }
    const size_t bytes = outer ? item.bytes() / static_cast<size_t>(outer) : 0;
    for (int64_t o = 0; o < outer && bytes; ++o)
      std::memcpy(joined.data<char>() + static_cast<size_t>(o * count + at) * bytes,
                  item.data<char>() + static_cast<size_t>(o) * bytes, bytes);
  }
  return joined;
}

/// Type and sizes of a body's outputs where no round has given any: those for inputs like these.
inline std::vector<ir::Value> promised(const ir::Graph& body, const std::vector<Tensor>& inputs) {
  ir::Graph typed = body;
  for (size_t at = 0; at < inputs.size(); ++at) {
    ir::Value& value = typed.value(typed.inputs[at]);
    if (!inputs[at] || inputs[at].dtype() == DType::sequence) continue;
    value.dtype = inputs[at].dtype();
    value.shape = shape_of(inputs[at].dims());
  }
  try {
    infer(typed);
  } catch (const Error&) {
    // A body that never runs may be wrong; what is known of its outputs stays.
  }
  std::vector<ir::Value> outputs;
  for (const ir::ValueId output : typed.outputs) outputs.push_back(typed.value(output));
  return outputs;
}

/// Fails the node where a condition is known to be no boolean, or not one.
inline void want_condition(const Inference& ctx, DType type, const ir::Shape* shape, const std::string& what) {
  if (type != DType::undefined && type != DType::boolean)
    ctx.fail(what + " must be of bool, not " + std::string(name(type)));
  const auto count = shape ? known_elements(*shape) : std::nullopt;
  if (count && *count != 1) ctx.fail(what + " has " + counted(*count, "element") + ", not 1");
}

/// The one truth value of a tensor.
template <class Context>
bool truth(Context& ctx, const Tensor& tensor) {
  if (tensor.dtype() != DType::boolean || tensor.elements() != 1) ctx.fail("a condition is not one boolean");
  return *tensor.data<uint8_t>() != 0;
}

}  // namespace tenon::ops
