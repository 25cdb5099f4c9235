// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>

#include "ops/control_flow.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

std::string text(const std::vector<int64_t>& sizes) {
  return sizes.empty() ? "scalar" : ir::str(ir::Shape(sizes.begin(), sizes.end()));
}

/// As --shapes takes it, with a question mark for what has to be given.
std::string to_fill_in(const ir::Shape& stated) {
  std::string text;
  for (size_t axis = 0; axis < stated.size(); ++axis) {
    if (axis > 0) text += "x";
    text += stated[axis].is_constant() ? stated[axis].str() : axis == 0 ? "1" : "?";
  }
  return text;
}

void set_input(ir::Value& value, const Shapes& shapes) {
  const auto given = shapes.find(value.name);
  if (!value.shape) {
    if (given == shapes.end())
      throw Error(Code::usage, "input \"" + value.name + "\" has no sizes in the model",
                  {.hint = "give them: --shapes " + value.name + ":1x…"});
    if (std::any_of(given->second.begin(), given->second.end(), [](int64_t size) { return size < 0; }))
      throw Error(Code::usage, "input \"" + value.name + "\" has no sizes in the model, and some are left open",
                  {.why = text(given->second)});
    value.shape = ir::Shape(given->second.begin(), given->second.end());
    return;
  }
  ir::Shape& shape = *value.shape;
  const ir::Shape stated = shape;
  if (given != shapes.end() && given->second.size() != shape.size())
    throw Error(Code::usage, "input \"" + value.name + "\" is given " + text(given->second),
                {.why = "the model expects " + ir::str(shape)});
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (given != shapes.end() && given->second[axis] >= 0) {
      const int64_t size = given->second[axis];
      if (shape[axis].is_constant() && shape[axis].value() != size)
        throw Error(Code::usage, "input \"" + value.name + "\" is given " + text(given->second),
                    {.why = "the model expects " + ir::str(stated)});
      shape[axis] = ir::Dim(size);
    } else if (!shape[axis].is_constant()) {
      if (axis != 0)
        throw Error(Code::usage, "input \"" + value.name + "\" has a dynamic size " + shape[axis].str(),
                    {.where = "axis " + std::to_string(axis) + " of " + ir::str(shape),
                     .hint = "give --shapes " + value.name + ":" + to_fill_in(stated) +
                             " with a size for each ?; the engine runs other sizes, too"});
      shape[axis] = ir::Dim(1);
    }
  }
}

bool has_bodies(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node& node) { return !ops::bodies_of(node).empty(); });
}

bool fold_control_flow(ir::Graph& graph) {
  const bool branches = passes::run_pass(graph, "fold_branches").changed;
  return passes::run_pass(graph, "fold_loops").changed || branches;
}

}  // namespace

ir::Graph concretise(const ir::Graph& graph, const Shapes& shapes) {
  ir::Graph result = graph;
  for (const auto& [name, sizes] : shapes) {
    bool known = false;
    std::string names;
    for (ir::ValueId input : result.inputs) {
      known |= result.value(input).name == name;
      names += (names.empty() ? "" : ", ") + result.value(input).name;
    }
    if (!known)
      throw Error(Code::usage, "the model has no input \"" + name + "\"", {.hint = "its inputs are " + names});
  }
  std::vector<char> is_input(result.values.size(), 0);
  for (ir::ValueId input : result.inputs) {
    is_input[input] = 1;
    if (result.value(input).dtype != DType::sequence) set_input(result.value(input), shapes);
  }
  for (size_t id = 0; id < result.values.size(); ++id) {
    ir::Value& value = result.values[id];
    if (is_input[id] || value.is_constant()) continue;
    value.shape.reset();
    value.content.reset();
  }
  result.tidy();
  ops::infer(result);
  // What the sizes decide becomes constant: shape arithmetic, and nodes over constants.
  passes::run_pass(result, "shape_folding");
  passes::run_pass(result, "constant_folding");
  // Conditions and trip counts, too: what bodies become has sizes that decide more.
  while (has_bodies(result) && fold_control_flow(result)) {
    passes::run_pass(result, "shape_folding");
    passes::run_pass(result, "constant_folding");
  }
  return result;
}

bool is_static(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes)
    for (ir::ValueId output : node.outputs) {
      if (output == ir::no_value) continue;
      const ir::Value& value = graph.value(output);
      if (!value.shape || !ir::is_constant(*value.shape) || size_of(value.dtype) == 0) return false;
    }
  for (ir::ValueId input : graph.inputs)
    if (size_of(graph.value(input).dtype) == 0) return false;
  return true;
}

}  // namespace tenon::plan
