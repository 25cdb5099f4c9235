// SPDX-License-Identifier: Apache-2.0
#include "support/op_graphs.h"

#include <algorithm>

#include "support/proto.h"

namespace tenon::test {
namespace {

using Random = std::mt19937_64;

bool chance(Random& random, unsigned one_in) { return random() % one_in == 0; }
template <class T>
const T& one_of(const std::vector<T>& list, Random& random) {
  return list[random() % list.size()];
}

DType random_type(Random& random) {
  static const std::vector<DType> types{DType::f32, DType::f32, DType::f32,     DType::f32,      DType::i64,
                                        DType::u8,  DType::i8,  DType::boolean, DType::f16,      DType::bf16,
                                        DType::f64, DType::i32, DType::i16,     DType::f8e4m3fn, DType::string};
  return one_of(types, random);
}

Dims random_dims(Random& random) {
  static const std::vector<Dims> shapes{
      {},           {1},          {2},          {4},          {0},          {2, 3},
      {3, 4},       {4, 4},       {1, 4},       {2, 3, 4},    {1, 4, 4},    {2, 2, 5, 5},
      {1, 4, 4, 8}, {4, 4, 1, 1}, {4, 1, 3, 3}, {4, 4, 3, 3}, {1, 1, 0, 2}, {1, 2, 3, 4, 5}};
  return one_of(shapes, random);
}

Tensor random_tensor(DType type, const Dims& dims, Random& random) {
  if (type == DType::string)
    return Tensor::of_strings(dims, std::vector<std::string>(static_cast<size_t>(dims.elements()), "a b"));
  Tensor tensor(type, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    const auto whole = static_cast<int64_t>(random() % 5) - 1;
    switch (type) {
      case DType::f32: tensor.data<float>()[at] = static_cast<float>(whole) * 0.75f; break;
      case DType::f64: tensor.data<double>()[at] = static_cast<double>(whole) * 0.75; break;
      case DType::i64: tensor.data<int64_t>()[at] = whole; break;
      case DType::i32: tensor.data<int32_t>()[at] = static_cast<int32_t>(whole); break;
      case DType::i16: tensor.data<int16_t>()[at] = static_cast<int16_t>(whole); break;
      case DType::f16:
      case DType::bf16: tensor.data<uint16_t>()[at] = static_cast<uint16_t>(random()); break;
      case DType::boolean: tensor.data<uint8_t>()[at] = whole > 0; break;
      default: tensor.data<uint8_t>()[at] = static_cast<uint8_t>(whole + 1);
    }
  }
  return tensor;
}

int64_t random_integer(Random& random) {
  static const std::vector<int64_t> values{
      0, 1, 1, 2, 2, 3, -1, -1, 4, 7, -3, 64, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  return one_of(values, random);
}

/// Two inputs that any branch or body may have, and what they give.
ir::GraphRef small_body(Random& random) {
  auto body = std::make_shared<ir::Graph>();
  const size_t inputs = random() % 5, outputs = random() % 4;
  std::vector<ir::ValueId> values;
  for (size_t at = 0; at < inputs; ++at) {
    values.push_back(body->add_value("i" + std::to_string(at)));
    body->inputs.push_back(values.back());
  }
  if (values.empty()) values.push_back(body->add_constant("k", random_tensor(DType::f32, {2}, random)));
  for (size_t at = 0; at < outputs; ++at) {
    body->outputs.push_back(body->apply("Identity", {one_of(values, random)}, {}, {"inner"}));
    body->output_names.push_back("o" + std::to_string(at));
  }
  return body;
}

ir::Attribute any_value(Random& random) {
  switch (random() % 7) {
    case 0: return random_integer(random);
    case 1: return 0.5f;
    case 2: return std::string("relu");
    case 3: return std::vector<int64_t>(random() % 5, random_integer(random));
    case 4: return std::vector<float>(random() % 3, -1.5f);
    case 5: return std::vector<std::string>(random() % 3, "add %0 %1");
    default: return random_tensor(random_type(random), random_dims(random), random);
  }
}

/// Mostly a value that the attribute may hold.
ir::Attribute random_value(const ops::AttributeDef& attribute, Random& random) {
  const auto integer = [&] {
    if (attribute.is_element_type) return static_cast<int64_t>(random() % 24);
    const int64_t value = random_integer(random);
    return chance(random, 8) ? value : std::clamp(value, attribute.low, std::max(attribute.low, attribute.high));
  };
  const auto text = [&] { return attribute.words.empty() ? std::string("relu") : one_of(attribute.words, random); };
  using Type = ops::AttributeType;
  if (chance(random, 12)) return any_value(random);
  switch (attribute.type) {
    case Type::integer: return integer();
    case Type::real: return static_cast<float>(static_cast<int>(random() % 9) - 4) * 0.5f;
    case Type::text: return text();
    case Type::integers: {
      std::vector<int64_t> list(random() % 5);
      for (int64_t& entry : list) entry = integer();
      return list;
    }
    case Type::reals: return std::vector<float>(random() % 4, 0.5f);
    case Type::texts: return std::vector<std::string>(1 + random() % 3, chance(random, 2) ? "relu %0" : "add %0 %1");
    case Type::graph: return small_body(random);
    default: return random_tensor(random_type(random), random_dims(random), random);
  }
}

void add_attributes(const ops::OpDef& op, const std::string& prefix, ir::Attributes& attributes, Random& random) {
  for (const ops::AttributeDef& attribute : op.attributes) {
    if (attribute.until != ops::AttributeDef::newest && !chance(random, 16)) continue;
    if (attribute.type == ops::AttributeType::part) {
      add_attributes(*ops::find(attribute.part), prefix + attribute.name, attributes, random);
    } else if (attribute.is_required ? !chance(random, 16) : chance(random, 3)) {
      attributes[prefix + attribute.name] = random_value(attribute, random);
    }
  }
  if (chance(random, 24)) attributes[prefix + "beyond"] = any_value(random);
}

int count_of(int least, int most, Random& random) {
  const int top = most < 0 ? least + 4 : most;
  const int count = least + static_cast<int>(random() % static_cast<unsigned>(top - least + 1));
  return std::max(0, chance(random, 10) ? count + (chance(random, 2) ? 1 : -1) : count);
}

ir::ValueId add_operand(ir::Graph& graph, const std::string& name, DType type, const Dims& dims, Random& random) {
  if (chance(random, 3)) return graph.add_constant(name, random_tensor(type, dims, random));
  const ir::ValueId id = graph.add_value(name, type, ir::Shape(dims.begin(), dims.end()));
  graph.inputs.push_back(id);
  return id;
}

/// The node anew, with these operands, outputs and attributes.
ir::Graph rebuilt(const ir::Graph& from, size_t outputs, ir::Attributes attributes,
                  const std::vector<std::pair<DType, Dims>>& operands, Random& random) {
  ir::Graph graph;
  graph.name = "g";
  std::vector<ir::ValueId> inputs, results;
  for (size_t at = 0; at < operands.size(); ++at) {
    const auto& [type, dims] = operands[at];
    const std::string name = "in" + std::to_string(at);
    const ir::Value* old = at < from.nodes[0].inputs.size() && from.nodes[0].inputs[at] != ir::no_value
                               ? &from.value(from.nodes[0].inputs[at])
                               : nullptr;
    if (type == DType::undefined) inputs.push_back(ir::no_value);
    else if (old && old->is_constant() && old->dtype == type && old->constant.dims() == dims)
      inputs.push_back(graph.add_constant(name, old->constant));
    else inputs.push_back(add_operand(graph, name, type, dims, random));
  }
  for (size_t at = 0; at < outputs; ++at) results.push_back(graph.add_value("out" + std::to_string(at)));
  graph.outputs = results;
  for (size_t at = 0; at < outputs; ++at) graph.output_names.push_back("out" + std::to_string(at));
  graph.add_node(from.nodes[0].op, inputs, results, std::move(attributes), {"n"});
  return graph;
}

}  // namespace

ir::Graph random_graph(const ops::OpDef& op, Random& random) {
  ir::Graph shell;
  shell.add_node(op.id, {}, {}, {});
  std::vector<std::pair<DType, Dims>> operands;
  const bool alike = chance(random, 2);
  DType type = random_type(random);
  Dims dims = random_dims(random);
  for (int at = count_of(op.min_inputs, op.max_inputs, random); at > 0; --at) {
    if (!alike || chance(random, 4)) type = random_type(random);
    if (!alike || chance(random, 4)) dims = random_dims(random);
    operands.push_back({chance(random, 16) ? DType::undefined : type, dims});
  }
  ir::Attributes attributes;
  add_attributes(op, "", attributes, random);
  const auto outputs = static_cast<size_t>(count_of(op.min_outputs, op.max_outputs, random));
  return rebuilt(shell, outputs, std::move(attributes), operands, random);
}

namespace {

using Operands = std::vector<std::pair<DType, Dims>>;

Operands operands_of(const ir::Graph& graph) {
  Operands operands;
  for (const ir::ValueId id : graph.nodes[0].inputs) {
    Dims dims;
    for (size_t axis = 0; id != ir::no_value && axis < graph.value(id).shape->size(); ++axis)
      dims.push_back((*graph.value(id).shape)[axis].value());
    operands.push_back({id == ir::no_value ? DType::undefined : graph.value(id).dtype, dims});
  }
  return operands;
}

/// No elements, one, a few less or more, an axis less or more.
std::vector<Dims> other_sizes(const Dims& dims) {
  std::vector<Dims> all{{}, {0}, {1}};
  for (size_t axis = 0; axis < dims.rank(); ++axis)
    for (const int64_t size : {int64_t{0}, int64_t{1}, dims[axis] - 1, dims[axis] + 1, dims[axis] * 2}) {
      if (size < 0 || size == dims[axis]) continue;
      all.push_back(dims);
      all.back()[axis] = size;
    }
  all.push_back(dims);
  if (dims.rank() > 0) all.back().erase(0);
  if (dims.rank() < Dims::max_rank) all.push_back(dims), all.back().insert(0, 1);
  return all;
}

}  // namespace

std::vector<ir::Graph> wrong_operands(const ir::Graph& graph, Random& random) {
  const ir::Node& node = graph.nodes[0];
  const Operands right = operands_of(graph);
  std::vector<ir::Graph> all;
  for (size_t at = 0; at < right.size(); ++at) {
    Operands wrong = right;
    const auto add = [&] { all.push_back(rebuilt(graph, node.outputs.size(), node.attributes, wrong, random)); };
    for (const Dims& dims : other_sizes(right[at].second)) {
      wrong[at] = {right[at].first == DType::undefined ? DType::f32 : right[at].first, dims};
      add();
    }
    for (const DType type : {DType::undefined, DType::f32, DType::f64, DType::f16, DType::bf16, DType::f8e4m3fn,
                             DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::boolean, DType::string}) {
      wrong[at] = {type, right[at].second};
      if (type != right[at].first) add();
    }
  }
  return all;
}

ir::Graph damaged_graph(ir::Graph graph, Random& random) {
  const ir::Node& node = graph.nodes[0];
  Operands operands = operands_of(graph);
  size_t outputs = node.outputs.size();
  ir::Attributes attributes = node.attributes;
  const ops::OpDef* op = ops::find(node.op);
  for (uint64_t faults = 1 + random() % 2; faults > 0; --faults) {
    const size_t at = operands.empty() ? 0 : random() % operands.size();
    switch (random() % 8) {
      case 0:
        if (!operands.empty()) operands.pop_back();
        break;
      case 1: operands.push_back({random_type(random), random_dims(random)}); break;
      case 2:
        if (!operands.empty()) operands[at].first = random_type(random);
        break;
      case 3:
        if (!operands.empty()) operands[at].second = random_dims(random);
        break;
      case 4:
        if (!operands.empty() && operands[at].second.rank() > 0)
          operands[at].second[random() % operands[at].second.rank()] = static_cast<int64_t>(random() % 4);
        break;
      case 5: outputs += chance(random, 2) ? 1 : outputs > 0 ? -1 : 0; break;
      case 6:
        if (!operands.empty()) operands[at].first = DType::undefined;
        break;
      default: {
        ir::Attributes more;
        if (op) add_attributes(*op, "", more, random);
        for (auto& [name, value] : more)
          if (chance(random, 2)) attributes[name] = value;
        if (!attributes.empty() && chance(random, 3)) attributes.erase(attributes.begin());
      }
    }
  }
  return rebuilt(graph, outputs, std::move(attributes), operands, random);
}

std::vector<Tensor> random_inputs(const ir::Graph& graph, Random& random) {
  std::vector<Tensor> inputs;
  for (const ir::ValueId id : graph.inputs) {
    Dims dims;
    for (const ir::Dim& dim : *graph.value(id).shape) dims.push_back(dim.value());
    inputs.push_back(random_tensor(graph.value(id).dtype, dims, random));
  }
  return inputs;
}

namespace {

std::string attribute_of(const std::string& name, const ir::Attribute& value) {
  std::string body = field(1, name);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    body += field(3, static_cast<uint64_t>(*integer)) + field(20, 2);
  } else if (const auto* real = std::get_if<float>(&value)) {
    body += varint(2 << 3 | 5) + raw<float>({*real}) + field(20, 1);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    body += field(4, *text) + field(20, 3);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t entry : *integers) body += field(8, static_cast<uint64_t>(entry));
    body += field(20, 7);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    for (const float entry : *reals) body += varint(7 << 3 | 5) + raw<float>({entry});
    body += field(20, 6);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& entry : *texts) body += field(9, entry);
    body += field(20, 8);
  } else {
    body += field(6, node("r", "Relu", {"in0"}, {"o"}) + output("o")) + field(20, 5);
  }
  return field(5, body);
}

}  // namespace

std::string onnx_of(const ir::Graph& graph) {
  const ir::Node& one = graph.nodes[0];
  std::string body, rest;
  std::vector<std::string> inputs, outputs;
  for (const ir::ValueId id : one.inputs) {
    inputs.push_back(id == ir::no_value ? "" : graph.value(id).name);
    if (id == ir::no_value) continue;
    const ir::Value& value = graph.value(id);
    std::vector<int64_t> dims;
    for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
    const auto type = static_cast<Element>(value.dtype);
    if (value.is_constant() && value.dtype != DType::string)
      body += tensor(value.name, type, dims, std::string(value.constant.data<char>(), value.constant.bytes()));
    else body += input(value.name, dims, type);
  }
  for (const ir::ValueId id : one.outputs) {
    outputs.push_back(graph.value(id).name);
    body += output(graph.value(id).name);
  }
  for (const auto& [name, value] : one.attributes) rest += attribute_of(name, value);
  if (!one.op.domain().empty()) rest += field(7, std::string(one.op.domain()));
  return model(body + node("n", std::string(one.op.name()), inputs, outputs, rest), "", 24);
}

}  // namespace tenon::test
