// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/inference.h"

/// What ops share that stand for several others of channels last, one after the other. The attributes of each part
/// stand behind its prefix: "conv.strides".
namespace tenon::ops {

/// A part as a node of its own, with attributes and origins alone.
inline ir::Node part_of(const ir::Node& node, const ir::OpId& op, const std::string& prefix) {
  ir::Node part;
  part.op = op;
  part.origins = node.origins;
  for (const auto& [name, value] : node.attributes)
    if (name.starts_with(prefix)) part.attributes[name.substr(prefix.size())] = value;
  part.attributes["layout"] = std::string("NHWC");
  return part;
}

inline void add_part(ir::Attributes& attributes, const ir::Node& part, const std::string& prefix) {
  for (const auto& [name, value] : part.attributes) attributes[prefix + name] = value;
}

/// In a graph of the parts: a value of the type and sizes of an input of the whole.
inline ir::ValueId add_value(ir::Graph& graph, const Inference& ctx, size_t input) {
  return ctx.has(input) ? graph.add_value("", ctx.dtype(input), known_shape(ctx, input)) : ir::no_value;
}

}  // namespace tenon::ops
