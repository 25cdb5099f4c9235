// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

#include <map>

#include "base/counted.h"
#include "ops/op.h"

namespace tenon::onnx {

void want_inputs(const NodeImport& node, std::initializer_list<size_t> needed, size_t most) {
  for (const size_t input : needed)
    if (!node.has(input)) node.fail("required input " + std::to_string(input) + " is missing");
  if (node.inputs.size() > most)
    node.fail("it has " + counted(node.inputs.size(), "input") + "; at most " + std::to_string(most) + " are known");
}

void become(NodeImport& node, const ir::OpId& op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
  while (!inputs.empty() && inputs.back() == ir::no_value) inputs.pop_back();
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.emit();
}

ir::ValueId reshaped(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& sizes) {
  return node.add("Reshape", {value, node.integers(sizes)});
}

ir::ValueId transposed(NodeImport& node, ir::ValueId value, std::vector<int64_t> perm) {
  return node.add("Transpose", {value}, {{"perm", std::move(perm)}});
}

ir::ValueId sliced(NodeImport& node, ir::ValueId value, int64_t axis, int64_t begin, int64_t end) {
  return node.add("Slice", {value, node.integers({begin}), node.integers({end}), node.integers({axis})});
}

ir::ValueId unsqueezed(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& axes) {
  return node.add("Unsqueeze", {value, node.integers(axes)});
}

ir::ValueId size_of(NodeImport& node, ir::ValueId value, int64_t axis) {
  if (const auto known = node.size(value, axis)) return node.integers({*known});
  if (const auto [input, at] = node.input_of_size(value, axis); input != ir::no_value) value = input, axis = at;
  return node.add("Shape", {value},
                  axis == -1 ? ir::Attributes{{"start", axis}} : ir::Attributes{{"start", axis}, {"end", axis + 1}});
}

ir::ValueId cast(NodeImport& node, ir::ValueId value, DType type) {
  return node.dtype(value) == type ? value : node.add("Cast", {value}, {{"to", static_cast<int64_t>(type)}});
}

ir::ValueId cast_like(NodeImport& node, ir::ValueId value, ir::ValueId like) {
  const DType type = node.dtype(like);
  return type == DType::undefined ? node.add("CastLike", {value, like}) : cast(node, value, type);
}

ir::ValueId plus(NodeImport& node, ir::ValueId value, ir::ValueId other) {
  return other == ir::no_value ? value : node.add("Add", {value, other});
}

ir::ValueId count_up(NodeImport& node, ir::ValueId count) {
  const ir::ValueId end = node.add("Squeeze", {count});
  return node.add("Range", {node.scalar(0), end, node.scalar(1)});
}

bool is_product(NodeImport& node, ir::ValueId value) {
  const ir::Node* maker = node.graph().producer(value);
  return maker && ops::has_trait(*maker, ops::Trait::product);
}

std::vector<int64_t> to_channels_last(size_t rank) {
  std::vector<int64_t> perm{0};
  for (size_t axis = 2; axis < rank; ++axis) perm.push_back(static_cast<int64_t>(axis));
  perm.push_back(1);
  return perm;
}

std::vector<int64_t> to_channels_first(size_t rank) {
  std::vector<int64_t> perm{0, static_cast<int64_t>(rank) - 1};
  for (size_t axis = 1; axis + 1 < rank; ++axis) perm.push_back(static_cast<int64_t>(axis));
  return perm;
}

namespace {

/// What an activation is called, and which attributes its parameters are.
struct Activation {
  const char* op;
  std::vector<const char*> parameters;
};

const std::map<std::string, Activation>& activations() {
  static const std::map<std::string, Activation> table = {
      {"Relu", {"Relu", {}}},
      {"Tanh", {"Tanh", {}}},
      {"Sigmoid", {"Sigmoid", {}}},
      {"Softplus", {"Softplus", {}}},
      {"Softsign", {"Softsign", {}}},
      {"HardSwish", {"HardSwish", {}}},
      {"LeakyRelu", {"LeakyRelu", {"alpha"}}},
      {"Elu", {"Elu", {"alpha"}}},
      {"Celu", {"Celu", {"alpha"}}},
      {"ThresholdedRelu", {"ThresholdedRelu", {"alpha"}}},
      {"HardSigmoid", {"HardSigmoid", {"alpha", "beta"}}},
      {"Selu", {"Selu", {"alpha", "gamma"}}},
      {"QuickGelu", {"com.microsoft:QuickGelu", {"alpha"}}},
  };
  return table;
}

}  // namespace

bool activate(NodeImport& node, ir::ValueId& value, const std::string& name, const std::vector<float>& parameters) {
  if (name.empty()) return true;
  if (name == "Gelu" || name == "FastGelu") {
    value = node.add("Gelu", {value}, {{"approximate", std::string(name == "Gelu" ? "none" : "tanh")}});
    return true;
  }
  if (name == "Clip" && parameters.size() == 2) {
    const ir::ValueId low = node.scalar_like(parameters[0], value), high = node.scalar_like(parameters[1], value);
    value = node.add("Clip", {value, low, high});
    return true;
  }
  const auto found = activations().find(name);
  if (found == activations().end() || parameters.size() > found->second.parameters.size()) return false;
  ir::Attributes attributes;
  for (size_t at = 0; at < parameters.size(); ++at) attributes[found->second.parameters[at]] = parameters[at];
  value = node.add(found->second.op, {value}, attributes);
  return true;
}

}  // namespace tenon::onnx
