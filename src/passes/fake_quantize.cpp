// SPDX-License-Identifier: Apache-2.0
#include "passes/fake_quantize.h"

#include <algorithm>
#include <map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Of several numbers and 0 the larger one is a whole step, too.
bool keeps_steps(const ir::Node& node) { return moves_one(node) || node.op == "Relu"; }

/// Of QuantizeLinear or DequantizeLinear.
std::optional<Steps16> steps_at(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() < 3 || !(has_one_scale(graph, node, DType::u16) || has_one_scale(graph, node, DType::i16)))
    return std::nullopt;
  return steps_of(graph, node.inputs[1], node.inputs[2]);
}

/// DequantizeLinear of what QuantizeLinear makes of numbers, by the same scale.
bool join_pair(ir::Graph& graph, ir::NodeId id, std::map<ir::ValueId, ir::ValueId>& made) {
  const ir::Node end = graph.node(id);
  if (end.op != "DequantizeLinear" || graph.value(end.outputs[0]).dtype != DType::f32) return false;
  const ir::Node* begin = made_by(graph, end.inputs[0], "QuantizeLinear");
  if (!begin || graph.value(begin->inputs[0]).dtype != DType::f32) return false;
  const auto steps = steps_at(graph, end), before = steps_at(graph, *begin);
  const bool same =
      steps && before && *steps == *before && graph.value(end.inputs[2]).dtype == graph.value(begin->inputs[2]).dtype;
  if (!same) return false;
  ir::ValueId& result = made.try_emplace(end.inputs[0], ir::no_value).first->second;
  if (result == ir::no_value) {
    result = fake_quantize(graph, begin->inputs[0], *steps, joined(begin->origins, end.origins),
                           graph.value(end.outputs[0]).name);
  } else {
    ir::Node& node = graph.node(graph.value(result).producer);
    node.origins = joined(node.origins, end.origins);
  }
  const ir::NodeId quantiser = graph.value(end.inputs[0]).producer;
  replace(graph, id, result);
  if (graph.value(end.inputs[0]).users.empty() && !graph.is_output(end.inputs[0])) graph.remove(quantiser);
  return true;
}

/// What are whole steps already.
bool drop_repeated(ir::Graph& graph, ir::NodeId id) {
  const auto steps = steps_made_by(graph.node(id));
  if (!steps) return false;
  const ir::ValueId from = graph.node(id).inputs[0];
  if (steps_of(graph, from) != steps) return false;
  replace(graph, id, from);
  return true;
}

/// Whether all that read a value quantise it to these steps themselves.
bool is_quantised_later(const ir::Graph& graph, ir::ValueId value, const Steps16& steps) {
  if (graph.is_output(value)) return false;
  const std::vector<ir::NodeId>& users = graph.value(value).users;
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const ir::Node& node = graph.node(user);
    if (std::count(node.inputs.begin(), node.inputs.end(), value) != 1 || node.inputs[0] != value) return false;
    if (node.op == "tenon:Int16Conv") return steps_of(graph, node.inputs[4], node.inputs[5]) == steps;
    return keeps_steps(node) && std::all_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId output) {
             return output == ir::no_value || is_quantised_later(graph, output, steps);
           });
  });
}

}  // namespace

std::optional<Steps16> steps_of(const ir::Graph& graph, ir::ValueId scale, ir::ValueId zero) {
  const Tensor *factor = graph.constant(scale), *numbers = graph.constant(zero);
  if (!factor || !numbers || factor->elements() != 1 || numbers->elements() != 1 || factor->dtype() != DType::f32)
    return std::nullopt;
  const float step = *factor->data<float>();
  if (!(step > 1e-25f && step < 1e25f)) return std::nullopt;
  if (numbers->dtype() == DType::u16) return Steps16{step, static_cast<float>(-int32_t{*numbers->data<uint16_t>()})};
  if (numbers->dtype() == DType::i16)
    return Steps16{step, static_cast<float>(INT16_MIN - int32_t{*numbers->data<int16_t>()})};
  return std::nullopt;
}

ir::ValueId fake_quantize(ir::Graph& graph, ir::ValueId x, const Steps16& steps,
                          const std::vector<std::string>& origins, const std::string& name) {
  const ir::ValueId result =
      graph.apply("tenon:FakeQuantize16", {x}, {{"scale", steps.scale}, {"low", steps.low}}, origins, name);
  graph.value(result).shape = graph.value(x).shape;
  graph.value(result).dtype = DType::f32;
  return result;
}

std::optional<Steps16> steps_made_by(const ir::Node& node) {
  if (node.op != "tenon:FakeQuantize16") return std::nullopt;
  return Steps16{node.real("scale", 1), node.real("low", 0)};
}

std::optional<Steps16> steps_of(const ir::Graph& graph, ir::ValueId value) {
  for (const ir::Node* node = graph.producer(value); node; node = graph.producer(node->inputs[0])) {
    if (const auto steps = steps_made_by(*node)) return steps;
    if (!keeps_steps(*node)) break;
  }
  return std::nullopt;
}

bool fake_quantize16(ir::Graph& graph) {
  std::map<ir::ValueId, ir::ValueId> made;
  if (!each_node(graph, [&](ir::NodeId id) { return join_pair(graph, id, made); })) return false;
  while (each_node(graph, [&](ir::NodeId id) { return drop_repeated(graph, id); })) {
  }
  return true;
}

bool int16_inputs(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    const auto steps = steps_made_by(node);
    if (!steps || !is_quantised_later(graph, node.outputs[0], *steps)) return false;
    replace(graph, id, node.inputs[0]);
    return true;
  });
}

}  // namespace tenon::passes
