// SPDX-License-Identifier: Apache-2.0
#include "onnx/model.h"

namespace tenon::onnx {
namespace {

GraphProto parse_graph(Reader reader);

std::pair<std::string_view, std::string_view> parse_pair(Reader reader) {
  std::pair<std::string_view, std::string_view> pair;
  for (Field field; reader.next(field);) {
    if (field.number == 1) pair.first = reader.text(field);
    if (field.number == 2) pair.second = reader.text(field);
  }
  return pair;
}

SparseProto parse_sparse(Reader reader) {
  SparseProto sparse;
  for (Field field; reader.next(field);) {
    if (field.number == 1) sparse.values = parse_tensor(reader.message(field));
    if (field.number == 2) sparse.indices = parse_tensor(reader.message(field));
    if (field.number == 3) reader.integers(field, sparse.dims);
  }
  return sparse;
}

std::vector<TypeProto::Size> parse_shape(Reader reader) {
  std::vector<TypeProto::Size> shape;
  for (Field field; reader.next(field);) {
    if (field.number != 1) continue;
    TypeProto::Size& size = shape.emplace_back();
    Reader inner = reader.message(field);
    for (Field part; inner.next(part);) {
      if (part.number == 1) size.value = inner.integer(part);
      if (part.number == 2) size.symbol = inner.text(part);
    }
  }
  return shape;
}

TypeProto parse_type(Reader reader) {
  TypeProto type;
  for (Field field; reader.next(field);) {
    if (field.number == 1 || field.number == 8) {  // Tensor and SparseTensor have the same fields
      type.kind = field.number == 1 ? TypeProto::Kind::tensor : TypeProto::Kind::other;
      Reader inner = reader.message(field);
      for (Field part; inner.next(part);) {
        if (part.number == 1) type.element = static_cast<int32_t>(inner.integer(part));
        if (part.number == 2) type.shape = parse_shape(inner.message(part));
      }
    } else if (field.number == 4 || field.number == 9) {
      type.kind = field.number == 4 ? TypeProto::Kind::sequence : TypeProto::Kind::optional;
      Reader inner = reader.message(field);
      for (Field part; inner.next(part);)
        if (part.number == 1) type.inner = std::make_shared<TypeProto>(parse_type(inner.message(part)));
    } else if (field.number == 5 || field.number == 7) {
      type.kind = TypeProto::Kind::other;
    }
  }
  return type;
}

ValueProto parse_value(Reader reader) {
  ValueProto value;
  for (Field field; reader.next(field);) {
    if (field.number == 1) value.name = reader.text(field);
    if (field.number == 2) value.type = parse_type(reader.message(field));
  }
  return value;
}

AttributeProto::Type attribute_type(int64_t number, const Reader& reader, size_t offset) {
  using Type = AttributeProto::Type;
  switch (number) {
    case 0: return Type::undefined;
    case 1: return Type::real;
    case 2: return Type::integer;
    case 3: return Type::text;
    case 4: return Type::tensor;
    case 5: return Type::graph;
    case 6: return Type::reals;
    case 7: return Type::integers;
    case 8: return Type::texts;
    case 9: return Type::tensors;
    case 10: return Type::graphs;
    case 11: return Type::sparse;
    case 12: return Type::sparses;
    case 13: return Type::type;
    case 14: return Type::types;
    default: reader.fail("attribute type " + std::to_string(number) + " does not exist", offset);
  }
}

AttributeProto parse_attribute(Reader reader, size_t offset) {
  using Type = AttributeProto::Type;
  AttributeProto attribute;
  attribute.offset = offset;
  Type seen = Type::undefined;
  unsigned kinds = 0;  // that there are values of
  const auto see = [&](Type type) {
    seen = type;
    kinds |= 1u << static_cast<unsigned>(type);
  };
  bool typed = false;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: attribute.name = reader.text(field); break;
      case 2:
        attribute.real = reader.real(field);
        see(Type::real);
        break;
      case 3:
        attribute.integer = reader.integer(field);
        see(Type::integer);
        break;
      case 4:
        attribute.text = reader.text(field);
        see(Type::text);
        break;
      case 5:
        attribute.tensor = std::make_shared<TensorProto>(parse_tensor(reader.message(field)));
        see(Type::tensor);
        break;
      case 6:
        attribute.graph = std::make_shared<GraphProto>(parse_graph(reader.message(field)));
        see(Type::graph);
        break;
      case 7:
        reader.reals(field, attribute.reals);
        see(Type::reals);
        break;
      case 8:
        reader.integers(field, attribute.integers);
        see(Type::integers);
        break;
      case 9:
        attribute.texts.push_back(reader.text(field));
        see(Type::texts);
        break;
      case 10: see(Type::tensors); break;
      case 11: see(Type::graphs); break;
      case 14:
        attribute.type_proto = std::make_shared<TypeProto>(parse_type(reader.message(field)));
        see(Type::type);
        break;
      case 20:
        attribute.type = attribute_type(reader.integer(field), reader, field.offset);
        typed = true;
        break;
      case 21: attribute.reference = reader.text(field); break;
      case 22:
        attribute.sparse = std::make_shared<SparseProto>(parse_sparse(reader.message(field)));
        see(Type::sparse);
        break;
      default: break;
    }
  }
  // IR version 1 has no type field.
  if (!typed || attribute.type == Type::undefined) attribute.type = seen;
  if (kinds & ~(1u << static_cast<unsigned>(attribute.type)))
    reader.fail("attribute '" + std::string(attribute.name) + "' holds values of another type than it states", offset);
  if (attribute.reference.empty() &&
      ((attribute.type == Type::tensor && !attribute.tensor) || (attribute.type == Type::graph && !attribute.graph) ||
       (attribute.type == Type::sparse && !attribute.sparse) ||
       (attribute.type == Type::type && !attribute.type_proto)))
    reader.fail("attribute '" + std::string(attribute.name) + "' holds no value of its type", offset);
  return attribute;
}

NodeProto parse_node(Reader reader) {
  NodeProto node;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: node.inputs.push_back(reader.text(field)); break;
      case 2: node.outputs.push_back(reader.text(field)); break;
      case 3: node.name = reader.text(field); break;
      case 4: node.op = reader.text(field); break;
      case 5: node.attributes.push_back(parse_attribute(reader.message(field), field.offset)); break;
      case 7: node.domain = reader.text(field); break;
      case 8: node.overload = reader.text(field); break;
      default: break;
    }
  }
  if (node.domain == "ai.onnx") node.domain = "";
  return node;
}

GraphProto parse_graph(Reader reader) {
  GraphProto graph;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: graph.nodes.push_back(parse_node(reader.message(field))); break;
      case 2: graph.name = reader.text(field); break;
      case 5: graph.initializers.push_back(parse_tensor(reader.message(field))); break;
      case 11: graph.inputs.push_back(parse_value(reader.message(field))); break;
      case 12: graph.outputs.push_back(parse_value(reader.message(field))); break;
      case 13: graph.values.push_back(parse_value(reader.message(field))); break;
      case 15: {
        SparseProto sparse = parse_sparse(reader.message(field));
        const std::string_view name = sparse.values.name;
        graph.sparse_initializers.emplace_back(name, std::move(sparse));
        break;
      }
      default: break;
    }
  }
  return graph;
}

void parse_opset(Reader reader, Opsets& opsets) {
  std::string_view domain;
  int64_t version = 0;
  for (Field field; reader.next(field);) {
    if (field.number == 1) domain = reader.text(field);
    if (field.number == 2) version = reader.integer(field);
  }
  opsets[domain == "ai.onnx" ? std::string() : std::string(domain)] = version;
}

FunctionProto parse_function(Reader reader) {
  FunctionProto function;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: function.name = reader.text(field); break;
      case 4: function.inputs.push_back(reader.text(field)); break;
      case 5: function.outputs.push_back(reader.text(field)); break;
      case 6: function.attributes.push_back(reader.text(field)); break;
      case 7: function.nodes.push_back(parse_node(reader.message(field))); break;
      case 9: parse_opset(reader.message(field), function.opsets); break;
      case 10: function.domain = reader.text(field); break;
      case 11: function.defaults.push_back(parse_attribute(reader.message(field), field.offset)); break;
      case 13: function.overload = reader.text(field); break;
      default: break;
    }
  }
  if (function.domain == "ai.onnx") function.domain = "";
  return function;
}

}  // namespace

TensorProto parse_tensor(Reader reader) {
  TensorProto tensor;
  bool first = true;
  for (Field field; reader.next(field);) {
    if (first) tensor.offset = field.offset;
    first = false;
    switch (field.number) {
      case 1: reader.integers(field, tensor.dims); break;
      case 2: tensor.type = static_cast<int32_t>(reader.integer(field)); break;
      case 4: reader.reals(field, tensor.floats); break;
      case 5: reader.integers(field, tensor.int32s); break;
      case 6: tensor.strings.push_back(reader.text(field)); break;
      case 7: reader.integers(field, tensor.int64s); break;
      case 8: tensor.name = reader.text(field); break;
      case 9: tensor.raw = reader.raw(field); break;
      case 10: reader.doubles(field, tensor.doubles); break;
      case 11: reader.integers(field, tensor.uint64s); break;
      case 13: tensor.external.push_back(parse_pair(reader.message(field))); break;
      case 14: tensor.is_external = reader.integer(field) == 1; break;
      default: break;
    }
  }
  return tensor;
}

ModelProto parse_model(Bytes bytes, std::string_view file) {
  ModelProto model;
  Reader reader(bytes, file);
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: model.ir_version = reader.integer(field); break;
      case 2: model.producer = reader.text(field); break;
      case 7:
        model.graph = parse_graph(reader.message(field));
        model.has_graph = true;
        break;
      case 8: parse_opset(reader.message(field), model.opsets); break;
      case 14: model.metadata.push_back(parse_pair(reader.message(field))); break;
      case 25: model.functions.push_back(parse_function(reader.message(field))); break;
      default: break;
    }
  }
  return model;
}

}  // namespace tenon::onnx
