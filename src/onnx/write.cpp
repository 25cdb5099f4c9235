// SPDX-License-Identifier: Apache-2.0
#include "onnx/write.h"

#include <tenon/error.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

#include "base/file.h"
#include "ops/op.h"

namespace tenon::onnx {
namespace {

constexpr int64_t ir_version = 10, opset = 21;
constexpr uint64_t largest_file = (uint64_t{1} << 31) - 1;

/// Encodes Protocol Buffers front to back: a message is walked once to count its bytes, then again to write them.
class Writer {
 public:
  explicit Writer(std::FILE* file, std::string path = "") : file_(file), path_(std::move(path)) {}
  [[noreturn]] void fail() const {
    throw Error(Code::io, "cannot write the model", {.where = path_, .why = std::strerror(errno)});
  }
  uint64_t bytes() const { return bytes_; }

  void integer(uint32_t field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void real(uint32_t field, float value) {
    tag(field, 5);
    put(&value, sizeof value);
  }
  void text(uint32_t field, const std::string& value) { blob(field, value.data(), value.size()); }
  void blob(uint32_t field, const void* data, size_t size) {
    tag(field, 2);
    varint(size);
    put(data, size);
  }
  template <class Body>
  void message(uint32_t field, const Body& body) {
    Writer counter(nullptr);
    body(counter);
    tag(field, 2);
    varint(counter.bytes());
    body(*this);
  }

 private:
  void tag(uint32_t field, uint32_t wire) { varint(field << 3 | wire); }
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) byte(static_cast<uint8_t>(value | 128));
    byte(static_cast<uint8_t>(value));
  }
  void byte(uint8_t value) { put(&value, 1); }
  void put(const void* data, size_t size) {
    bytes_ += size;
    if (file_ && size > 0 && std::fwrite(data, 1, size, file_) != size) fail();
  }

  std::FILE* file_;  // null: only counts
  std::string path_;
  uint64_t bytes_ = 0;
};

// Field numbers are those of onnx.proto3.

void write_tensor(Writer& to, const Tensor& tensor, const std::string& name) {
  for (const int64_t size : tensor.dims()) to.integer(1, size);
  to.integer(2, static_cast<int64_t>(tensor.dtype()));
  if (!name.empty()) to.text(8, name);
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.strings()) to.text(6, text);
  } else if (size_of(tensor.dtype()) == 0) {
    throw Error(Code::unsupported, "cannot write a tensor of type " + std::string(tenon::name(tensor.dtype())),
                {.where = "tensor \"" + name + "\""});
  } else {
    to.blob(9, tensor.data(), tensor.bytes());
  }
}

struct AttributeWriter {
  Writer& to;
  const ir::Node& node;
  void kind(int64_t type) { to.integer(20, type); }
  void operator()(int64_t value) { to.integer(3, value), kind(2); }
  void operator()(float value) { to.real(2, value), kind(1); }
  void operator()(const std::string& value) { to.text(4, value), kind(3); }
  void operator()(const std::vector<int64_t>& values) {
    for (const int64_t value : values) to.integer(8, value);
    kind(7);
  }
  void operator()(const std::vector<float>& values) {
    for (const float value : values) to.real(7, value);
    kind(6);
  }
  void operator()(const std::vector<std::string>& values) {
    for (const std::string& value : values) to.text(9, value);
    kind(8);
  }
  void operator()(const Tensor& tensor) {
    to.message(5, [&](Writer& part) { write_tensor(part, tensor, ""); });
    kind(4);
  }
  void operator()(const ir::GraphRef&) {
    throw Error(Code::unsupported, "cannot write a model with subgraphs",
                {.where = "node " + node.label() + " (" + node.op + ")"});
  }
};

void refuse_ours(const ir::Node& node) {
  const ops::OpDef* op = ops::find(node.op);
  bool internal = node.op.is_internal();
  for (const auto& [name, value] : node.attributes) {
    const ops::AttributeDef* attribute =
        op ? ops::find_attribute(op->attributes, name, ops::AttributeDef::newest) : nullptr;
    internal |= op && (!attribute || attribute->is_internal) && !std::holds_alternative<ir::GraphRef>(value);
  }
  if (internal)
    throw Error(Code::unsupported, "the graph has an operation that ONNX does not have",
                {.where = "node " + node.label() + " (" + node.op + ")"});
}

void write_node(Writer& to, const ir::Graph& graph, const ir::Node& node, const std::string& name) {
  refuse_ours(node);
  const auto value_name = [&](ir::ValueId id) { return id == ir::no_value ? std::string() : graph.value(id).name; };
  for (const ir::ValueId id : node.inputs) to.text(1, value_name(id));
  for (const ir::ValueId id : node.outputs) to.text(2, value_name(id));
  to.text(3, name);
  to.text(4, std::string(node.op.name()));
  for (const auto& [attribute, value] : node.attributes)
    to.message(5, [&, &attribute = attribute, &value = value](Writer& part) {
      part.text(1, attribute);
      std::visit(AttributeWriter{part, node}, value);
    });
  if (const std::string domain(node.op.domain()); !domain.empty()) to.text(7, domain);
}

void write_value(Writer& to, const ir::Value& value, const std::string& name) {
  to.text(1, name);
  to.message(2, [&](Writer& type) {
    type.message(1, [&](Writer& tensor) {
      tensor.integer(1, static_cast<int64_t>(value.dtype));
      if (!value.shape) return;
      tensor.message(2, [&](Writer& shape) {
        for (const ir::Dim& dim : *value.shape)
          shape.message(1, [&](Writer& size) {
            if (dim.is_constant()) size.integer(1, dim.value());
            else size.text(2, dim.str());
          });
      });
    });
  });
}

/// Names of nodes, each once: the first origin where it is free.
std::vector<std::string> node_names(const ir::Graph& graph) {
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes) {
    std::string name = node.label();
    for (int at = 1; !taken.insert(name).second; ++at) name = node.label() + "_" + std::to_string(at);
    names.push_back(name);
  }
  return names;
}

void write_graph(Writer& to, const ir::Graph& graph) {
  const std::vector<std::string> names = node_names(graph);
  for (size_t at = 0; at < graph.nodes.size(); ++at)
    if (graph.nodes[at].alive)
      to.message(1, [&](Writer& node) { write_node(node, graph, graph.nodes[at], names[at]); });
  // An output whose value goes by another name within.
  for (size_t at = 0; at < graph.outputs.size(); ++at) {
    const std::string& inner = graph.value(graph.outputs[at]).name;
    if (inner == graph.output_names[at]) continue;
    to.message(1, [&](Writer& node) {
      node.text(1, inner);
      node.text(2, graph.output_names[at]);
      node.text(4, "Identity");
    });
  }
  to.text(2, graph.name.empty() ? "graph" : graph.name);
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && !value.users.empty())
      to.message(5, [&](Writer& tensor) { write_tensor(tensor, value.constant, value.name); });
  for (const ir::ValueId id : graph.inputs)
    to.message(11, [&](Writer& value) { write_value(value, graph.value(id), graph.value(id).name); });
  for (size_t at = 0; at < graph.outputs.size(); ++at)
    to.message(12, [&](Writer& value) { write_value(value, graph.value(graph.outputs[at]), graph.output_names[at]); });
}

void write_model(Writer& to, const ir::Graph& graph) {
  to.integer(1, ir_version);
  to.text(2, "tenon");
  to.message(7, [&](Writer& part) { write_graph(part, graph); });
  to.message(8, [&](Writer& part) {
    part.text(1, "");
    part.integer(2, opset);
  });
  std::set<std::string> domains;
  for (const ir::Node& node : graph.nodes)
    if (const std::string domain(node.op.domain()); !domain.empty() && domains.insert(domain).second)
      to.message(8, [&](Writer& part) {
        part.text(1, domain);
        part.integer(2, 1);
      });
  for (const auto& [key, text] : graph.metadata)
    to.message(14, [&, &key = key, &text = text](Writer& part) {
      part.text(1, key);
      part.text(2, text);
    });
}

}  // namespace

int64_t write(const ir::Graph& graph, std::FILE* file, const std::string& path) {
  Writer counter(nullptr);
  write_model(counter, graph);
  if (counter.bytes() > largest_file)
    throw Error(Code::unsupported, "the model is larger than an ONNX file can be", {.where = path, .why = "2 GB"});
  Writer writer(file, path);
  write_model(writer, graph);
  if (std::fflush(file) != 0) writer.fail();
  return static_cast<int64_t>(counter.bytes());
}

void write_file(const ir::Graph& graph, const std::string& path, const Files& files) {
  NewFile whole(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(whole.temporary().c_str(), "wbe"),
                                                             &std::fclose);
  if (!file) throw Error(Code::io, "cannot write the model", {.where = path, .why = std::strerror(errno)});
  write(graph, file.get(), path);
  check(files);
  whole.commit();
}

}  // namespace tenon::onnx
