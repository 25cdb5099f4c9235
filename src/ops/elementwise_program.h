#pragma once
#include <string>
#include <vector>

namespace tenon::ops {

/// A fused tree of elementwise nodes over f32: one instruction a line ("mul %0 %1", "clip %3 0 6"). Registers are
/// numbered from the node's inputs on, each line defining the next; the last one is the result. Operands are registers
/// or numbers. "dequant %0 0.1 3" (scale, zero point) alone reads bytes, which inputs of u8 and "quant" give.
struct Instruction {
  enum class Word {
    add,
    sub,
    mul,
    div,
    max,
    min,
    pow,
    relu,
    sigmoid,
    tanh,
    silu,
    hardswish,
    mish,
    softplus,
    exp,
    log,
    sqrt,
    neg,
    abs,
    reciprocal,
    erf,
    floor,
    ceil,
    sin,
    cos,
    clip,
    hardsigmoid,
    leakyrelu,
    elu,
    gelu,
    gelutanh,
    dequant,
    quant
  };
  struct Operand {
    int reg = -1;      // -1: the number
    float number = 0;
  };
  Word word;
  Operand a, b;             // b only for words of two tensors
  // clip: bounds; hardsigmoid, leakyrelu, elu: their attributes; dequant, quant: scale and zero point
  float alpha = 0, beta = 0;
};

/// Whether the word takes two tensor operands.
bool is_binary(Instruction::Word word);
/// Throws std::invalid_argument saying what is wrong with which line.
std::vector<Instruction> parse_program(const std::vector<std::string>& lines, size_t inputs);
/// Whether the result of a program is bytes.
bool gives_bytes(const std::vector<Instruction>& program);
/// One instruction on one element; bytes are whole numbers here.
float apply(const Instruction& instruction, float a, float b);

}  // namespace tenon::ops
