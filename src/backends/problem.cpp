#include "backends/problem.h"

#include <algorithm>

namespace tenon::backends {
namespace {
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
}  // namespace

Dims dense_strides(const Dims& dims) {
  Dims strides = dims;
  int64_t stride = 1;
  for (size_t at = dims.rank(); at-- > 0;) {
    strides[at] = stride;
    // Beside a size of 0 the others may be anything; strides mean nothing then.
    if (__builtin_mul_overflow(stride, dims[at], &stride)) stride = 0;
  }
  return strides;
}

size_t extent(const Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
    last += std::max<int64_t>(0, operand.dims[axis] - 1) * operand.strides[axis];
  return operand.dims.elements() == 0 ? 0 : static_cast<size_t>(last) * size_of(operand.dtype);
}

bool Operand::dense() const {
  int64_t stride = 1;
  for (size_t at = dims.rank(); at-- > 0;) {
    if (dims[at] != 1 && strides[at] != stride) return false;
    stride *= dims[at];
  }
  return true;
}

std::string signature(const Problem& problem) {
  std::string text = problem.node->op;
  for (const Operand& operand : problem.inputs) append(text, operand);
  text += " ->";
  for (const Operand& operand : problem.outputs) append(text, operand);
  for (const auto& [name, value] : problem.node->attributes) {
    if (name == rounding) continue;
    text += ' ' + name + '=';
    if (const auto* integer = std::get_if<int64_t>(&value)) text += std::to_string(*integer);
    else if (const auto* real = std::get_if<float>(&value)) text += std::to_string(*real);
    else if (const auto* words = std::get_if<std::string>(&value)) text += *words;
    else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t item : *integers) text += std::to_string(item) + ',';
    else if (const auto* lines = std::get_if<std::vector<std::string>>(&value))
      for (const auto& item : *lines) text += item + ';';
  }
  text += " t" + std::to_string(problem.threads) + (problem.strict ? " strict" : "") + (problem.tf32 ? " tf32" : "") +
          (problem.bf16 ? " bf16" : "");
  return text;
}

bool same_but_threads(const std::string& left, const std::string& right) {
  const auto is_digit = [&](size_t at) { return at < left.size() && left[at] >= '0' && left[at] <= '9'; };
  size_t at = left.rfind(" t");
  while (at != std::string::npos && at > 0 && !is_digit(at + 2)) at = left.rfind(" t", at - 1);
  if (at == std::string::npos || right.compare(0, at + 2, left, 0, at + 2) != 0) return false;
  const auto behind = [&](const std::string& text) {
    const size_t end = text.find_first_not_of("0123456789", at + 2);
    return end == std::string::npos ? std::string() : text.substr(end);
  };
  return behind(left) == behind(right);
}

}  // namespace tenon::backends
