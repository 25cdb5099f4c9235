// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "ir/graph.h"

namespace tenon::ir {
namespace {
const char* kind_of(const Attribute& attribute) {
  static const char* const kinds[] = {"an integer",        "a number",        "a text",   "a list of integers",
                                      "a list of numbers", "a list of texts", "a tensor", "a graph"};
  static_assert(std::variant_size_v<Attribute> == std::size(kinds));
  return kinds[attribute.index()];
}

/// nullptr where the attribute is absent, or an empty list, which says nothing of its type.
template <class T>
const T* find(const Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
  if (!value && !(list && list->empty()))
    throw Error(
        Code::invalid_model, "node \"" + node.label() + "\" (" + node.op + ") is invalid",
        {.where = "node " + node.label(),
         .why = "the attribute " + name + " is " + kind_of(found->second) + ", not " + kind_of(Attribute(T()))});
  return value;
}
}  // namespace

int64_t Node::integer(const std::string& name, int64_t otherwise) const {
  const auto* value = find<int64_t>(*this, name);
  return value ? *value : otherwise;
}

float Node::real(const std::string& name, float otherwise) const {
  const auto found = attributes.find(name);
  if (found != attributes.end())
    if (const auto* whole = std::get_if<int64_t>(&found->second)) return static_cast<float>(*whole);
  const auto* value = find<float>(*this, name);
  return value ? *value : otherwise;
}

std::string Node::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = find<std::string>(*this, name);
  return value ? *value : otherwise;
}

std::vector<int64_t> Node::integers(const std::string& name, std::vector<int64_t> otherwise) const {
  const auto* value = find<std::vector<int64_t>>(*this, name);
  return value && !value->empty() ? *value : otherwise;
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
