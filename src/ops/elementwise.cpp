#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/broadcast.h"
#include "ops/elementwise_program.h"
#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops {
namespace {

using Word = Instruction::Word;
constexpr const char* words[] = {"add",     "sub",  "mul",         "div",        "max",  "min",      "pow",     "relu",
                                 "sigmoid", "tanh", "silu",        "hardswish",  "mish", "softplus", "exp",     "log",
                                 "sqrt",    "neg",  "abs",         "reciprocal", "erf",  "floor",    "ceil",    "sin",
                                 "cos",     "clip", "hardsigmoid", "leakyrelu",  "elu",  "gelu",     "gelutanh",
                                 "dequant", "quant"};

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

size_t parameters(Word word) {
  switch (word) {
    case Word::clip: case Word::hardsigmoid: case Word::dequant: case Word::quant: return 2;
    case Word::leakyrelu: case Word::elu: return 1;
    default: return 0;
  }
}

}  // namespace

bool is_binary(Word word) { return word <= Word::pow; }
bool gives_bytes(const std::vector<Instruction>& program) { return program.back().word == Word::quant; }

std::vector<Instruction> parse_program(const std::vector<std::string>& lines, size_t inputs) {
  if (lines.empty() || lines.size() > 256) throw std::invalid_argument("a program has 1 to 256 instructions");
  std::vector<Instruction> program;
  for (const std::string& line : lines) {
    const std::vector<std::string> parts = split(line);
    size_t at = 0;
    while (at < std::size(words) && parts[0] != words[at]) ++at;
    if (at == std::size(words)) wrong(line, "the word is unknown");
    Instruction instruction{static_cast<Word>(at), {}, {}};
    const size_t operands = is_binary(instruction.word) ? 2 : 1, wanted = parameters(instruction.word);
    if (parts.size() != 1 + operands + wanted) wrong(line, "the number of operands is wrong");
    const size_t registers = inputs + program.size();
    instruction.a = operand(line, parts[1], registers);
    if (operands == 2) instruction.b = operand(line, parts[2], registers);
    if (wanted > 0) instruction.alpha = number(line, parts[1 + operands]);
    if (wanted > 1) instruction.beta = number(line, parts[2 + operands]);
    program.push_back(instruction);
  }
  return program;
}

float apply(const Instruction& step, float a, float b) {
  const auto sigmoid = [](float x) { return 1.f / (1.f + std::exp(-x)); };
  const auto softplus = [](float x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); };
  switch (step.word) {
    case Word::add: return a + b;
    case Word::sub: return a - b;
    case Word::mul: return a * b;
    case Word::div: return a / b;
    case Word::max: return std::isnan(a) || a > b ? a : b;
    case Word::min: return std::isnan(a) || a < b ? a : b;
    case Word::pow: return std::pow(a, b);
    case Word::relu: return a > 0 || std::isnan(a) ? a : 0;
    case Word::sigmoid: return sigmoid(a);
    case Word::tanh: return std::tanh(a);
    case Word::silu: return a * sigmoid(a);
    case Word::hardswish: return a * std::fmin(6.f, std::fmax(0.f, a + 3)) / 6;
    case Word::mish: return a * std::tanh(softplus(a));
    case Word::softplus: return softplus(a);
    case Word::exp: return std::exp(a);
    case Word::log: return std::log(a);
    case Word::sqrt: return std::sqrt(a);
    case Word::neg: return -a;
    case Word::abs: return std::fabs(a);
    case Word::reciprocal: return 1 / a;
    case Word::erf: return std::erf(a);
    case Word::floor: return std::floor(a);
    case Word::ceil: return std::ceil(a);
    case Word::sin: return std::sin(a);
    case Word::cos: return std::cos(a);
    case Word::clip: return a < step.alpha ? step.alpha : a > step.beta ? step.beta : a;
    case Word::hardsigmoid: return std::fmin(1.f, std::fmax(0.f, step.alpha * a + step.beta));
    case Word::leakyrelu: return a < 0 ? step.alpha * a : a;
    case Word::elu: return a < 0 ? step.alpha * std::expm1(a) : a;
    case Word::gelu: return 0.5f * a * (1 + std::erf(a * 0.70710678f));
    case Word::dequant: return (a - step.beta) * step.alpha;
    case Word::quant: {
      const float steps = a / step.alpha;
      return std::isnan(steps) ? step.beta : std::clamp(std::nearbyint(steps) + step.beta, 0.f, 255.f);
    }
    case Word::gelutanh: return 0.5f * a * (1 + std::tanh(0.79788456f * (a + 0.044715f * a * a * a)));
  }
  return a;
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

/// Of the result: bytes, or the numbers of the first input.
DType type_of(const std::vector<Instruction>& program, DType first) {
  return gives_bytes(program) ? DType::u8 : first == DType::u8 ? DType::f32 : first;
}

/// Bytes are read by dequant and by nothing else.
void check_bytes(const auto& ctx, const std::vector<Instruction>& program, std::vector<char> bytes) {
  for (const Instruction& step : program) {
    const bool reads = step.a.reg >= 0 && bytes[step.a.reg];
    if (reads != (step.word == Word::dequant) || (is_binary(step.word) && step.b.reg >= 0 && bytes[step.b.reg]))
      ctx.fail("its program takes bytes for numbers, or numbers for bytes");
    if ((step.word == Word::dequant || step.word == Word::quant) &&
        !(step.alpha > 0 && step.beta >= 0 && step.beta <= 255 && step.beta == std::floor(step.beta)))
      ctx.fail("a scale or zero point of its program is out of range");
    bytes.push_back(step.word == Word::quant);
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
  ctx.set(0, type_of(program, ctx.dtype(0)), broadcast_inputs(ctx));
}

Tensor numbers_of(const Tensor& given) {
  if (given.dtype() != DType::u8) return widened(given);
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
  if (!gives_bytes(program)) return deliver(ctx, 0, type_of(program, ctx.input(0).dtype()), y);
  std::copy_n(y.data<float>(), y.elements(), ctx.output(0, DType::u8, dims).data<uint8_t>());
}

TENON_OP("tenon:Elementwise", 1, -1, 1, 1, infer, evaluate, {attr::texts("program").required().internal()},
         Trait::elementwise | Trait::eight_bits | Trait::half);

}  // namespace
}  // namespace tenon::ops
