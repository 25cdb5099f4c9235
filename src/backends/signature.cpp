// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string_view>

#include "backends/kernel.h"
#include "base/hash.h"

namespace tenon::backends {
namespace {

/// Always with a mark that tells it from an integer.
std::string number(float value) {
  char buffer[32];
  const std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string number(int64_t value) { return std::to_string(value); }

/// Quoted, so that text of a model cannot pass for what stands behind it.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + '"';
}

template <class T, class F>
std::string listed(const std::vector<T>& list, const F& text_of) {
  std::string text = "[";
  for (const T& item : list) text += (text.size() > 1 ? "," : "") + text_of(item);
  return text + ']';
}

std::string hash_text(std::span<const std::byte> bytes) {
  char text[20];
  return {text, std::to_chars(text, text + sizeof text, hash64(bytes), 16).ptr};
}

std::string text_of(const ir::Attribute& attribute) {
  const auto plain = [](const auto& value) { return number(value); };
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return number(*integer);
  if (const auto* real = std::get_if<float>(&attribute)) return number(*real);
  if (const auto* text = std::get_if<std::string>(&attribute)) return quoted(*text);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute)) return listed(*integers, plain);
  if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) return listed(*reals, plain);
  if (const auto* lines = std::get_if<std::vector<std::string>>(&attribute)) return listed(*lines, quoted);
  if (const auto* tensor = std::get_if<Tensor>(&attribute)) {
    const std::string type = std::string(name(tensor->dtype())) + ':' + tensor->dims().str() + '#';
    if (tensor->dtype() == DType::string) return type + listed(tensor->strings(), quoted);
    return type + hash_text({tensor->data<std::byte>(), tensor->bytes()});
  }
  const auto& graph = std::get<ir::GraphRef>(attribute);
  const std::string text = graph ? ir::print(*graph) : std::string();
  return "graph#" + hash_text(std::as_bytes(std::span(text)));
}

void append(std::string& text, const Operand& operand) {
  text += ' ';
  if (!operand) {
    text += '_';
    return;
  }
  text += name(operand.dtype);
  text += ':' + operand.dims.str();
  if (!operand.dense()) text += '/' + operand.strides.str();
  if (operand.constant) text += '!';
  if (!operand.aligned) text += '~';
}

/// Of the node, or of a part of it.
bool says_rounding(const std::string& name) { return name == rounding || name.ends_with(std::string(".") + rounding); }

/// Of all but the threads.
std::string body_of(const Problem& problem) {
  std::string text = problem.node->op;
  for (const Operand& operand : problem.inputs) append(text, operand);
  text += " ->";
  for (const Operand& operand : problem.outputs) append(text, operand);
  for (const auto& [name, value] : problem.node->attributes)
    if (!says_rounding(name)) text += ' ' + name + '=' + text_of(value);
  for (const auto& [set, word] : {std::pair(problem.strict, " strict"), std::pair(problem.tf32, " tf32"),
                                  std::pair(problem.bf16, " bf16"), std::pair(problem.fused, " fused")})
    if (set) text += word;
  return text;
}

std::string threads_of(const Problem& problem) {
  return problem.threads > 0 ? 't' + std::to_string(problem.threads) + ' ' : std::string();
}

/// What stands behind the prefix and the number of threads.
std::string_view without_threads(std::string_view signature) {
  const size_t end = signature.find(' ');
  const bool has = end != std::string_view::npos && end > 1 && signature[0] == 't' &&
                   signature.substr(1, end - 1).find_first_not_of("0123456789") == std::string_view::npos;
  return has ? signature.substr(end + 1) : signature;
}

}  // namespace

std::string signature(const Problem& problem) { return threads_of(problem) + body_of(problem); }

bool same_but_threads(const std::string& left, const std::string& right) {
  return without_threads(left) == without_threads(right);
}

std::string op_of(const std::string& signature) {
  const std::string_view text = without_threads(signature);
  return std::string(text.substr(0, text.find(' ')));
}

}  // namespace tenon::backends
