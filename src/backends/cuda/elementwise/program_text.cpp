// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/elementwise/program_text.h"

#include <charconv>
#include <cmath>

namespace tenon::cuda {
namespace {

using ops::Instruction;

/// A float as CUDA C++ writes it, exactly.
std::string literal(float value) {
  if (std::isinf(value)) return value > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  char text[40];
  const auto end =
      std::to_chars(text, text + sizeof text, std::fabs(static_cast<double>(value)), std::chars_format::hex);
  return std::string("(float)(") + (std::signbit(value) ? "-0x" : "0x") + std::string(text, end.ptr) + ")";
}

std::string text_of(const Instruction& step, const std::string& a, const std::string& b, bool fast) {
  const ops::Expression& what = ops::expression(step.id);
  const std::string type = std::string("<tenon::expr::") + what.name + ", " +
                           (what.is_exact ? "Exact"
                            : fast        ? "Fast"
                                          : "Real") +
                           ">";
  if (what.operands == 2) return "combine" + type + "(" + a + ", " + b + ")";
  return "evaluate" + type + "(" + a + ", " + literal(step.alpha) + ", " + literal(step.beta) + ")";
}

}  // namespace

std::string program_text(const std::vector<Instruction>& program, size_t operands, bool fast) {
  const auto value = [&](const Instruction::Operand& from) {
    return from.reg < 0 ? literal(from.number) : "v" + std::to_string(from.reg);
  };
  std::string text;
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& step = program[k];
    const std::string b = ops::is_binary(step) ? value(step.b) : "";
    text += "    const float v" + std::to_string(operands + k) + " = " + text_of(step, value(step.a), b, fast) + ";\n";
  }
  return text + "    r = v" + std::to_string(program.empty() ? 0 : operands + program.size() - 1) + ";\n";
}

}  // namespace tenon::cuda
