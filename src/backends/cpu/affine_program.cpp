// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/affine_program.h"

#include <algorithm>

namespace tenon::cpu {
namespace {

using ops::Instruction;
using Op = ByteAffineOperand::Op;

std::optional<Op> op_of(expr::Id id) {
  switch (id) {
    case expr::Id::Mul: return Op::mul;
    case expr::Id::Add: return Op::add;
    case expr::Id::Sub: return Op::sub;
    case expr::Id::Max: return Op::max;
    case expr::Id::Relu: return Op::relu;
    default: return std::nullopt;
  }
}

/// Reads a program from its end on.
class Reader {
 public:
  Reader(const std::vector<Instruction>& program, std::span<const bool> are_bytes)
      : program_(program), are_bytes_(are_bytes) {}

  std::optional<AffineProgram> read() {
    const Instruction& last = program_.back();
    if (last.id != expr::Id::Quant) return std::nullopt;
    AffineProgram& p = result_;
    p.affine.scale = last.alpha, p.affine.zero = static_cast<int32_t>(last.beta);
    for (int at = last.a.reg; !take(Op::first, at);)
      if (at < 0 || !step(at)) return std::nullopt;
    // Below 0 there is no byte.
    ByteAffine& affine = p.affine;
    if (affine.zero == 0 && affine.operands[0].step == Op::relu) drop_first();
    std::reverse(affine.operands, affine.operands + affine.count);
    std::reverse(p.inputs.begin(), p.inputs.begin() + affine.count);
    return p;
  }

 private:
  void drop_first() {
    ByteAffine& affine = result_.affine;
    std::copy(affine.operands + 1, affine.operands + affine.count, affine.operands);
    std::copy(result_.inputs.begin() + 1, result_.inputs.begin() + affine.count, result_.inputs.begin());
    --affine.count;
  }

  int inputs() const { return static_cast<int>(are_bytes_.size()); }

  /// The instruction that gives a register, with the register that it goes on from in the place of that.
  bool step(int& at) {
    if (at < inputs()) return false;
    const Instruction& made = program_[static_cast<size_t>(at - inputs())];
    const auto how = op_of(made.id);
    if (!how) return false;
    if (how == Op::relu) {
      at = made.a.reg;
      return add({Op::relu, false, 0, 0}, 0);
    }
    if (take(*how, made.b.reg)) at = made.a.reg;
    else if (how != Op::sub && take(*how, made.a.reg)) at = made.b.reg;
    else return false;
    return true;
  }

  /// Takes a register as an operand, if it is an input of floats or one of bytes behind `dequant`.
  bool take(Op how, int reg) {
    if (reg < 0) return false;
    if (reg < inputs()) return !are_bytes_[static_cast<size_t>(reg)] && add({how, false, 0, 0}, reg);
    const Instruction& made = program_[static_cast<size_t>(reg - inputs())];
    return made.id == expr::Id::Dequant && made.a.reg >= 0 && made.a.reg < inputs() &&
           add({how, true, made.alpha, static_cast<int32_t>(made.beta)}, made.a.reg);
  }

  bool add(const ByteAffineOperand& operand, int input) {
    ByteAffine& affine = result_.affine;
    if (affine.count == ByteAffine::most) return false;
    result_.inputs[static_cast<size_t>(affine.count)] = static_cast<size_t>(input);
    affine.operands[affine.count++] = operand;
    return true;
  }

  const std::vector<Instruction>& program_;
  std::span<const bool> are_bytes_;
  AffineProgram result_;
};

}  // namespace

std::optional<AffineProgram> affine_program(const std::vector<Instruction>& program, std::span<const bool> are_bytes) {
  return Reader(program, are_bytes).read();
}

}  // namespace tenon::cpu
