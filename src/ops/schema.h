// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

/// What attributes an op has, and what each may hold.
namespace tenon::ops {

enum class AttributeType { integer, real, text, integers, reals, texts, tensor, graph, part };

/// An attribute of an op, made by the functions of `attr` and narrowed by its methods:
/// attr::integer("group").at_least(1).
struct AttributeDef {
  static constexpr int newest = std::numeric_limits<int>::max();
  std::string name;
  AttributeType type;
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  std::vector<std::string> words = {};  // that a text may be; empty: any
  int since = 1, until = newest;        // ONNX's opsets that have it, first and last
  bool is_required = false, is_internal = false, is_element_type = false;
  ir::OpId part = {};  // of type part: the op whose attributes stand behind the name as a prefix

  AttributeDef at_least(int64_t least) const;
  AttributeDef between(int64_t least, int64_t most) const;
  AttributeDef one_of(std::vector<std::string> list) const;
  AttributeDef from(int opset) const;
  AttributeDef up_to(int opset) const;
  AttributeDef required() const;
  /// Made by passes; no model may have it.
  AttributeDef internal() const;
  bool holds_in(int64_t opset) const { return since <= opset && opset <= until; }
};
using AttributeDefs = std::vector<AttributeDef>;
AttributeDefs operator+(AttributeDefs first, const AttributeDefs& second);

namespace attr {
AttributeDef integer(const char* name);
AttributeDef real(const char* name);
AttributeDef text(const char* name);
AttributeDef integers(const char* name);
AttributeDef reals(const char* name);
AttributeDef texts(const char* name);
AttributeDef tensor(const char* name);
AttributeDef graph(const char* name);
/// 0 or 1.
AttributeDef flag(const char* name);
/// The number of an element type, 0 for none.
AttributeDef element_type(const char* name);
/// What ops of opsets up to 5 have, which nothing reads.
AttributeDef consumed_inputs();
/// All attributes of an op, internally, each behind a prefix: of an op that stands for several.
AttributeDef part(const char* prefix, const char* op);
}  // namespace attr

/// The definition of an attribute in an opset; nullptr where the op has none of that name there.
const AttributeDef* find_attribute(const AttributeDefs& attributes, std::string_view name, int64_t opset);
/// Why the attribute cannot hold the value; empty where it can. An empty list of integers is an empty list of any type.
std::string fault_of(const AttributeDef& attribute, const ir::Attribute& value);
/// Why there is no such attribute: the one probably meant, and those that a model may have.
std::string unknown_attribute(const AttributeDefs& attributes, std::string_view name, int64_t opset);
/// What is wrong with the attributes of a node in ONNX's newest form, or of an internal one; empty where nothing is.
std::string fault_of(const AttributeDefs& attributes, const ir::Node& node);

}  // namespace tenon::ops
