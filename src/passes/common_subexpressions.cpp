// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t largest_compared = 1 << 16;  // bytes of a constant that is compared by its elements

void put(std::string& key, const std::string& text) {
  key += std::to_string(text.size());
  key += ':';
  key += text;
}

void put(std::string& key, const Tensor& tensor) {
  key += std::to_string(static_cast<int>(tensor.dtype())) + "[" + tensor.dims().str() + "]";
  put(key, std::string(tensor.data<char>(), tensor.bytes()));
}

/// The bytes of plain tensors stand for them; others are never equal.
bool is_comparable(const Tensor& tensor) {
  return tensor && tensor.dtype() != DType::string && tensor.dtype() != DType::sequence &&
         tensor.bytes() <= largest_compared;
}

template <class Items>
void put_list(std::string& key, const Items& items) {
  const auto bytes = items.size() * sizeof(items[0]);
  put(key, bytes ? std::string(reinterpret_cast<const char*>(items.data()), bytes) : std::string());
}

struct AttributeKey {
  std::string& key;
  bool comparable = true;
  void operator()(int64_t number) { put(key, std::to_string(number)); }
  void operator()(float number) { put(key, std::string(reinterpret_cast<const char*>(&number), sizeof number)); }
  void operator()(const std::string& text) { put(key, text); }
  void operator()(const std::vector<int64_t>& items) { put_list(key, items); }
  void operator()(const std::vector<float>& items) { put_list(key, items); }
  void operator()(const std::vector<std::string>& items) {
    key += std::to_string(items.size());
    for (const std::string& item : items) put(key, item);
  }
  void operator()(const Tensor& tensor) {
    if ((comparable = comparable && is_comparable(tensor))) put(key, tensor);
  }
  void operator()(const ir::GraphRef&) { comparable = false; }
};

std::optional<std::string> key_of(const ir::Node& node) {
  std::string key;
  put(key, node.op);
  for (ir::ValueId id : node.inputs) key.append("%").append(std::to_string(id));
  for (ir::ValueId id : node.outputs) key += id == ir::no_value ? '_' : 'o';
  AttributeKey visitor{key};
  for (const auto& [name, attribute] : node.attributes) {
    put(key, name);
    key += std::to_string(attribute.index());
    std::visit(visitor, attribute);
  }
  return visitor.comparable ? std::optional<std::string>(std::move(key)) : std::nullopt;
}

bool share_constants(ir::Graph& graph) {
  std::map<std::string, ir::ValueId> seen;
  bool changed = false;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const ir::Value& value = graph.values[id];
    if (!is_comparable(value.constant) || graph.is_output(static_cast<ir::ValueId>(id))) continue;
    std::string key;
    put(key, value.constant);
    const auto [found, fresh] = seen.emplace(std::move(key), static_cast<ir::ValueId>(id));
    if (fresh || value.users.empty()) continue;
    graph.replace_uses(static_cast<ir::ValueId>(id), found->second);
    changed = true;
  }
  return changed;
}

}  // namespace

bool common_subexpressions(ir::Graph& graph) {
  const bool shared = share_constants(graph);
  std::map<std::string, ir::NodeId> seen;
  const bool merged = each_node(graph, [&](ir::NodeId id) {
    if (is_random(graph.node(id))) return false;
    auto key = key_of(graph.node(id));
    if (!key) return false;
    const auto [found, fresh] = seen.emplace(std::move(*key), id);
    if (fresh) return false;
    const std::vector<ir::ValueId> outputs = graph.node(id).outputs;
    // Two outputs of the graph stay two values.
    for (ir::ValueId output : outputs)
      if (output != ir::no_value && graph.is_output(output)) return false;
    for (size_t at = 0; at < outputs.size(); ++at)
      if (outputs[at] != ir::no_value) graph.replace_uses(outputs[at], graph.node(found->second).outputs[at]);
    ir::Node& kept = graph.node(found->second);
    kept.origins = joined(kept.origins, graph.node(id).origins);
    graph.remove(id);
    return true;
  });
  return shared || merged;
}

}  // namespace tenon::passes
