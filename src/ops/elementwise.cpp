// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/broadcast.h"
#include "ops/elementwise_program.h"
#include "ops/epilogue.h"
#include "ops/expression.h"
#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> parts(1);
  for (char c : line) {
    if (c == ' ') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

[[noreturn]] void wrong(const std::string& line, const char* why) {
  throw std::invalid_argument("instruction \"" + line + "\": " + why);
}

float number(const std::string& line, const std::string& text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) wrong(line, "a number is expected");
  return value;
}

Instruction::Operand operand(const std::string& line, const std::string& text, size_t registers) {
  if (text.empty() || text[0] != '%') return {-1, number(line, text)};
  size_t reg = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), reg);
  if (error != std::errc() || end != text.data() + text.size() || reg >= registers)
    wrong(line, "it names a register that is not there");
  return {static_cast<int>(reg), 0};
}

}  // namespace

std::string program_number(float number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

std::string program_line(const Formula& formula, const std::vector<std::string>& operands) {
  const Expression& what = expression(formula.id);
  std::string line = what.word;
  for (int at = 0; at < what.operands; ++at) line += " " + operands[static_cast<size_t>(at)];
  if (what.parameters.count > 0) line += " " + program_number(formula.alpha);
  if (what.parameters.count > 1) line += " " + program_number(formula.beta);
  return line;
}

bool is_binary(const Instruction& instruction) { return expression(instruction.id).operands == 2; }
bool gives_bytes(const std::vector<Instruction>& program) { return program.back().id == expr::Id::Quant; }

std::optional<std::vector<Instruction>> program_of(const ir::Node& node) {
  const auto found = node.attributes.find("program");
  if (found == node.attributes.end()) return std::nullopt;
  return parse_program(std::get<std::vector<std::string>>(found->second), node.inputs.size());
}

std::vector<Instruction> parse_program(const std::vector<std::string>& lines, size_t inputs) {
  if (lines.empty() || lines.size() > 256) throw std::invalid_argument("a program has 1 to 256 instructions");
  std::vector<Instruction> program;
  for (const std::string& line : lines) {
    const std::vector<std::string> parts = split(line);
    const Expression* const found = find_expression(parts[0]);
    if (!found) wrong(line, "the word is unknown");
    Instruction instruction{found->id, {}, {}};
    const size_t operands = static_cast<size_t>(found->operands);
    const size_t wanted = static_cast<size_t>(found->parameters.count);
    if (parts.size() != 1 + operands + wanted) wrong(line, "the number of operands is wrong");
    const size_t registers = inputs + program.size();
    instruction.a = operand(line, parts[1], registers);
    if (operands == 2) instruction.b = operand(line, parts[2], registers);
    if (wanted > 0) instruction.alpha = number(line, parts[1 + operands]);
    if (wanted > 1) instruction.beta = number(line, parts[2 + operands]);
    // A square needs no power.
    if (found->id == expr::Id::Pow && instruction.b.reg < 0 && instruction.b.number == 2)
      instruction.id = expr::Id::Mul, instruction.b = instruction.a;
    program.push_back(instruction);
  }
  return program;
}

float apply(const Instruction& step, float a, float b) {
  return expression(step.id).apply(a, b, step.alpha, step.beta);
}

namespace {

std::vector<Instruction> program_of(const auto& ctx) {
  const auto found = ctx.node().attributes.find("program");
  const auto* lines =
      found == ctx.node().attributes.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
  if (!lines) ctx.fail("it has no program");
  try {
    return parse_program(*lines, ctx.inputs());
  } catch (const std::invalid_argument& error) {
    ctx.fail(error.what());
  }
}

/// Of the result: bytes, or output_dtype, which is that of the first input where it says nothing.
DType type_of(const auto& ctx, const std::vector<Instruction>& program, DType first) {
  return gives_bytes(program) ? DType::u8 : output_type(ctx, first == DType::u8 ? DType::f32 : first);
}

/// Bytes are read by dequant and by nothing else.
void check_bytes(const auto& ctx, const std::vector<Instruction>& program, std::vector<char> bytes) {
  for (const Instruction& step : program) {
    const bool reads = step.a.reg >= 0 && bytes[step.a.reg];
    if (reads != (step.id == expr::Id::Dequant) || (is_binary(step) && step.b.reg >= 0 && bytes[step.b.reg]))
      ctx.fail("its program takes bytes for numbers, or numbers for bytes");
    if ((step.id == expr::Id::Dequant || step.id == expr::Id::Quant) &&
        !(step.alpha > 0 && step.beta >= 0 && step.beta <= 255 && step.beta == std::floor(step.beta)))
      ctx.fail("a scale or zero point of its program is out of range");
    bytes.push_back(step.id == expr::Id::Quant);
  }
}

void infer(Inference& ctx) {
  const std::vector<Instruction> program = program_of(ctx);
  std::vector<char> bytes;
  bool known = true;
  for (size_t at = 0; at < ctx.inputs(); ++at) {
    const DType type = ctx.dtype(at);
    bytes.push_back(type == DType::u8);
    known = known && type != DType::undefined;
    if (type != DType::undefined && type != DType::u8 && wide_type(type) != DType::f32)
      ctx.fail("a program computes f32, f16, bf16 and u8 alone");
  }
  if (known) check_bytes(ctx, program, bytes);
  ctx.set(0, type_of(ctx, program, ctx.dtype(0)), broadcast_inputs(ctx));
}

Tensor numbers_of(const Tensor& given) {
  if (given.dtype() != DType::u8) return as_f32(given);
  Tensor numbers(DType::f32, given.dims());
  std::copy_n(given.data<uint8_t>(), given.elements(), numbers.data<float>());
  return numbers;
}

void evaluate(Evaluation& ctx) {
  const std::vector<Instruction> program = program_of(ctx);
  Dims dims = ctx.input(0).dims();
  for (size_t at = 1; at < ctx.inputs(); ++at) {
    const Dims& other = ctx.input(at).dims();
    while (dims.rank() < other.rank()) dims.insert(0, 1);
    for (size_t axis = 0; axis < other.rank(); ++axis) {
      int64_t& size = dims[dims.rank() - 1 - axis];
      const int64_t with = other[other.rank() - 1 - axis];
      if (size != with && size != 1 && with != 1) ctx.fail("inputs do not broadcast together");
      if (size == 1) size = with;
    }
  }
  std::vector<Tensor> inputs;
  for (size_t at = 0; at < ctx.inputs(); ++at) inputs.push_back(numbers_of(ctx.input(at)));
  Tensor y(DType::f32, dims);
  std::vector<float> registers(ctx.inputs() + program.size());
  for (int64_t at = 0; at < dims.elements(); ++at) {
    for (size_t input = 0; input < ctx.inputs(); ++input) {
      const Dims& own = inputs[input].dims();
      int64_t rest = at, offset = 0, stride = 1;
      for (size_t axis = 0; axis < dims.rank(); ++axis) {
        const int64_t index = rest % dims[dims.rank() - 1 - axis];
        rest /= dims[dims.rank() - 1 - axis];
        if (axis >= own.rank()) continue;
        const int64_t size = own[own.rank() - 1 - axis];
        if (size != 1) offset += index * stride;
        stride *= size;
      }
      registers[input] = inputs[input].data<float>()[offset];
    }
    for (size_t k = 0; k < program.size(); ++k) {
      const auto value = [&](const Instruction::Operand& operand) {
        return operand.reg < 0 ? operand.number : registers[static_cast<size_t>(operand.reg)];
      };
      registers[ctx.inputs() + k] = apply(program[k], value(program[k].a), value(program[k].b));
    }
    y.data<float>()[at] = registers.back();
  }
  if (!gives_bytes(program)) return deliver(ctx, 0, type_of(ctx, program, ctx.input(0).dtype()), y);
  std::copy_n(y.data<float>(), y.elements(), ctx.output(0, DType::u8, dims).data<uint8_t>());
}

TENON_OP("tenon:Elementwise", 1, -1, 1, 1, infer, evaluate,
         {attr::texts("program").required().internal(), attr::element_type("output_dtype").internal()},
         Trait::elementwise | Trait::int8 | Trait::half);

}  // namespace
}  // namespace tenon::ops
