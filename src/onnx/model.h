// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/wire.h"

/// The messages of onnx.proto3 as plain structs. Strings and raw data refer to the file's bytes.
namespace tenon::onnx {

struct TensorProto {
  std::string_view name;
  std::vector<int64_t> dims;
  int32_t type = 0;
  std::vector<float> floats;
  std::vector<int64_t> int32s, int64s, uint64s;  // as varints; each reader narrows them
  std::vector<double> doubles;
  std::vector<std::string_view> strings;
  std::optional<Bytes> raw;
  std::vector<std::pair<std::string_view, std::string_view>> external;
  bool is_external = false;
  size_t offset = 0;  // in the file
};

struct SparseProto {
  TensorProto values, indices;
  std::vector<int64_t> dims;
};

struct TypeProto {
  enum class Kind { none, tensor, sequence, optional, other };
  struct Size {
    std::optional<int64_t> value;
    std::string_view symbol;
  };
  Kind kind = Kind::none;
  int32_t element = 0;                       // of a tensor
  std::optional<std::vector<Size>> shape;    // of a tensor
  std::shared_ptr<TypeProto> inner;          // of a sequence or an optional
};

struct ValueProto {
  std::string_view name;
  TypeProto type;
};

struct GraphProto;

struct AttributeProto {
  enum class Type {
    undefined,
    real,
    integer,
    text,
    tensor,
    graph,
    reals,
    integers,
    texts,
    tensors,
    graphs,
    sparse,
    sparses,
    type,
    types
  };
  std::string_view name, reference;
  Type type = Type::undefined;
  float real = 0;
  int64_t integer = 0;
  std::string_view text;
  std::shared_ptr<TensorProto> tensor;
  std::shared_ptr<SparseProto> sparse;
  std::shared_ptr<TypeProto> type_proto;
  std::shared_ptr<GraphProto> graph;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  size_t offset = 0;
};

struct NodeProto {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeProto> attributes;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<std::pair<std::string_view, SparseProto>> sparse_initializers;
  std::vector<ValueProto> inputs, outputs, values;
};

using Opsets = std::map<std::string, int64_t, std::less<>>;  // "" is the ONNX domain

struct FunctionProto {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<AttributeProto> defaults;
  std::vector<NodeProto> nodes;
  Opsets opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string_view producer;
  bool has_graph = false;
  GraphProto graph;
  Opsets opsets;
  std::vector<FunctionProto> functions;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
};

/// Read one message. Throw Error(invalid_model) naming `file` and byte.
ModelProto parse_model(Bytes bytes, std::string_view file);
TensorProto parse_tensor(Reader reader);

}  // namespace tenon::onnx
