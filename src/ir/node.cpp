#include "base/check.h"
#include "ir/graph.h"

namespace tenon::ir {
namespace {
template <class T>
const T* find(const Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}
}  // namespace

int64_t Node::integer(const std::string& name, int64_t otherwise) const {
  const auto* value = find<int64_t>(*this, name);
  return value ? *value : otherwise;
}

float Node::real(const std::string& name, float otherwise) const {
  if (const auto* value = find<float>(*this, name)) return *value;
  const auto* whole = find<int64_t>(*this, name);
  return whole ? static_cast<float>(*whole) : otherwise;
}

std::string Node::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = find<std::string>(*this, name);
  return value ? *value : otherwise;
}

std::vector<int64_t> Node::integers(const std::string& name, std::vector<int64_t> otherwise) const {
  const auto* value = find<std::vector<int64_t>>(*this, name);
  return value ? *value : otherwise;
}

std::vector<float> Node::reals(const std::string& name, std::vector<float> otherwise) const {
  const auto* value = find<std::vector<float>>(*this, name);
  return value ? *value : otherwise;
}

GraphRef Node::graph(const std::string& name) const {
  const auto* value = find<GraphRef>(*this, name);
  return value ? *value : nullptr;
}

}  // namespace tenon::ir
