// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/expression.h"

namespace tenon::ops {

/// A fused tree of elementwise nodes over f32: one instruction a line, the word of an expression, its operands and its
/// parameters ("mul %0 %1", "clip %3 0 6"). Registers are numbered from the node's inputs on, each line defining the
/// next; the last one is the result. Operands are registers or numbers. "dequant %0 0.1 3" (scale, zero point) alone
/// reads bytes, which inputs of u8 and "quant" give.
struct Instruction {
  struct Operand {
    int reg = -1;  // -1: the number
    float number = 0;
  };
  expr::Id id;
  Operand a, b;               // b only for expressions of two operands
  float alpha = 0, beta = 0;  // the expression's parameters
};

bool is_binary(const Instruction& instruction);
/// Throws std::invalid_argument saying what is wrong with which line.
std::vector<Instruction> parse_program(const std::vector<std::string>& lines, size_t inputs);
/// A number and the line that computes a formula of such numbers and registers, as programs spell them.
std::string program_number(float number);
std::string program_line(const Formula& formula, const std::vector<std::string>& operands);
/// The program of a node that has one.
std::optional<std::vector<Instruction>> program_of(const ir::Node& node);
/// Whether the result of a program is bytes.
bool gives_bytes(const std::vector<Instruction>& program);
/// One instruction on one element; bytes are whole numbers here.
float apply(const Instruction& instruction, float a, float b);

}  // namespace tenon::ops
