// SPDX-License-Identifier: Apache-2.0
#include "ops/schema.h"

#include <tenon/dtype.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"

namespace tenon::ops {
namespace {

const char* text_of(AttributeType type) {
  static constexpr std::array texts{"an integer",        "a number",          "a string", "a list of integers",
                                    "a list of numbers", "a list of strings", "a tensor", "a graph"};
  return texts.at(static_cast<size_t>(type));
}

AttributeDef made(const char* name, AttributeType type) { return {.name = name, .type = type}; }

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t at = 0; at < words.size(); ++at)
    text += (at == 0 ? "" : at + 1 == words.size() ? " or " : ", ") + (words[at].empty() ? "\"\"" : words[at]);
  return text;
}

bool is_element_type(int64_t number) {
  return number > 0 && number < static_cast<int64_t>(DType::sequence) &&
         name(static_cast<DType>(number)) != "undefined";
}

std::string fault_of(const AttributeDef& attribute, int64_t value) {
  if (attribute.is_element_type && value != 0 && !is_element_type(value))
    return attribute.name + " is " + std::to_string(value) +
           ", which is not the number of an element type that Tenon knows";
  if (value >= attribute.low && value <= attribute.high) return "";
  const std::string limits = attribute.high == std::numeric_limits<int64_t>::max()
                                 ? "at least " + std::to_string(attribute.low)
                                 : std::to_string(attribute.low) + " to " + std::to_string(attribute.high);
  return attribute.name + " is " + std::to_string(value) + "; expected " + limits;
}

std::string fault_of(const AttributeDef& attribute, const std::string& value) {
  if (attribute.words.empty() ||
      std::find(attribute.words.begin(), attribute.words.end(), value) != attribute.words.end())
    return "";
  return attribute.name + " is \"" + value + "\"; expected " + joined(attribute.words);
}

template <class T>
std::string fault_of_list(const AttributeDef& attribute, const std::vector<T>& list) {
  for (const T& entry : list)
    if (std::string fault = fault_of(attribute, entry); !fault.empty()) return fault;
  return "";
}

/// The definition of what a node in ONNX's newest form has, or what a pass gave it.
const AttributeDef* find_current(const AttributeDefs& attributes, std::string_view name) {
  // A node whose operands may be rounded, though those of others may not.
  static const AttributeDef rounding = attr::text("rounding").one_of({"bf16"}).internal();
  if (name == rounding.name) return &rounding;
  for (const AttributeDef& attribute : attributes)
    if (attribute.type == AttributeType::part && name.starts_with(attribute.name)) return &attribute;
  return find_attribute(attributes, name, AttributeDef::newest);
}

}  // namespace

AttributeDef AttributeDef::at_least(int64_t least) const { return between(least, std::numeric_limits<int64_t>::max()); }
AttributeDef AttributeDef::between(int64_t least, int64_t most) const {
  AttributeDef other = *this;
  other.low = least, other.high = most;
  return other;
}
AttributeDef AttributeDef::one_of(std::vector<std::string> list) const {
  AttributeDef other = *this;
  other.words = std::move(list);
  return other;
}
AttributeDef AttributeDef::from(int opset) const {
  AttributeDef other = *this;
  other.since = opset;
  return other;
}
AttributeDef AttributeDef::up_to(int opset) const {
  AttributeDef other = *this;
  other.until = opset;
  return other;
}
AttributeDef AttributeDef::required() const {
  AttributeDef other = *this;
  other.is_required = true;
  return other;
}
AttributeDef AttributeDef::internal() const {
  AttributeDef other = *this;
  other.is_internal = true;
  return other;
}

AttributeDefs operator+(AttributeDefs first, const AttributeDefs& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

namespace attr {
AttributeDef integer(const char* name) { return made(name, AttributeType::integer); }
AttributeDef real(const char* name) { return made(name, AttributeType::real); }
AttributeDef text(const char* name) { return made(name, AttributeType::text); }
AttributeDef integers(const char* name) { return made(name, AttributeType::integers); }
AttributeDef reals(const char* name) { return made(name, AttributeType::reals); }
AttributeDef texts(const char* name) { return made(name, AttributeType::texts); }
AttributeDef tensor(const char* name) { return made(name, AttributeType::tensor); }
AttributeDef graph(const char* name) { return made(name, AttributeType::graph); }
AttributeDef flag(const char* name) { return integer(name).between(0, 1); }
AttributeDef element_type(const char* name) {
  AttributeDef attribute = integer(name);
  attribute.is_element_type = true;
  return attribute;
}
AttributeDef consumed_inputs() { return integers("consumed_inputs").up_to(5); }
AttributeDef part(const char* prefix, const char* op) {
  AttributeDef attribute = made(prefix, AttributeType::part).internal();
  attribute.part = op;
  return attribute;
}
}  // namespace attr

const AttributeDef* find_attribute(const AttributeDefs& attributes, std::string_view name, int64_t opset) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const AttributeDef& attribute) {
    return attribute.name == name && attribute.holds_in(opset);
  });
  return found == attributes.end() ? nullptr : &*found;
}

std::string fault_of(const AttributeDef& attribute, const ir::Attribute& value) {
  const auto kind = static_cast<AttributeType>(value.index());
  const auto* integers = std::get_if<std::vector<int64_t>>(&value);
  const bool is_list = attribute.type == AttributeType::reals || attribute.type == AttributeType::texts;
  if (integers && integers->empty() && is_list) return "";
  if (kind != attribute.type)
    return "the attribute " + attribute.name + " is " + text_of(kind) + ", not " + text_of(attribute.type);
  if (const auto* integer = std::get_if<int64_t>(&value)) return fault_of(attribute, *integer);
  if (const auto* text = std::get_if<std::string>(&value)) return fault_of(attribute, *text);
  if (integers) return fault_of_list(attribute, *integers);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return fault_of_list(attribute, *texts);
  return "";
}

std::string unknown_attribute(const AttributeDefs& attributes, std::string_view name, int64_t opset) {
  std::vector<std::string> known;
  for (const AttributeDef& attribute : attributes)
    if (!attribute.is_internal && attribute.holds_in(opset)) known.push_back(attribute.name);
  std::sort(known.begin(), known.end());
  std::string text = "it has no attribute " + std::string(name);
  if (const std::string meant = nearest(std::string(name), known); !meant.empty())
    text += "; did you mean " + meant + "?";
  if (known.empty()) return text + (text.back() == '?' ? "" : ";") + " the operator has none";
  text += text.back() == '?' ? " The operator has " : "; the operator has ";
  for (size_t at = 0; at < known.size(); ++at) text += (at ? ", " : "") + known[at];
  return text;
}

std::string fault_of(const AttributeDefs& attributes, const ir::Node& node) {
  for (const auto& [name, value] : node.attributes) {
    const AttributeDef* attribute = find_current(attributes, name);
    if (!attribute) return unknown_attribute(attributes, name, AttributeDef::newest);
    // Text forms write whole numbers for either; the attributes of parts are checked with the parts.
    const bool is_whole = attribute->type == AttributeType::real && std::holds_alternative<int64_t>(value);
    if (attribute->type == AttributeType::part || is_whole) continue;
    if (std::string fault = fault_of(*attribute, value); !fault.empty()) return fault;
  }
  for (const AttributeDef& attribute : attributes)
    if (attribute.is_required && attribute.holds_in(AttributeDef::newest) && !node.has(attribute.name))
      return "the attribute " + attribute.name + " is missing";
  return "";
}

}  // namespace tenon::ops
