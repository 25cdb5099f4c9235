// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/rows.h"
#include "backends/kernel.h"
#include "ops/elementwise_program.h"

namespace tenon::cpu::program_int16 {
namespace {

using backends::Problem;
using backends::Reason;
using ops::Instruction;

constexpr int64_t entries = 65536;

/// The results of a program whose first step rounds its only input to 16 bits, for each number that this may give.
std::vector<float> table_of(const std::vector<Instruction>& program, const RowOps& ops) {
  std::vector<std::vector<float>> registers(1, std::vector<float>(entries));
  const Instruction& first = program[0];
  for (int64_t at = 0; at < entries; ++at)
    registers[0][static_cast<size_t>(at)] = (first.beta + static_cast<float>(at)) * first.alpha;
  for (const Instruction& step : program) {
    std::vector<float> result(entries);
    const auto operand = [&](const Instruction::Operand& from) {
      return from.reg < 0 ? &from.number : registers[static_cast<size_t>(from.reg)].data();
    };
    const int a = step.a.reg < 0 ? 0 : 1, b = step.b.reg < 0 ? 0 : 1;
    if (ops::is_binary(step)) {
      ops.binary(step.id, result.data(), operand(step.a), a, operand(step.b), b, entries);
    } else {
      ops.unary(step.id, step.alpha, step.beta, result.data(), operand(step.a), a ? entries : 1);
      if (!a) std::fill(result.begin(), result.end(), result[0]);
    }
    registers.push_back(std::move(result));
  }
  return registers.back();
}

/// Such a program as a table.
class Table16Step : public backends::Step {
 public:
  Table16Step(const Problem& problem, const std::vector<Instruction>& program)
      : rows_(problem, 1),
        ops_(row_ops(isa_for(problem))),
        scale_(program[0].alpha),
        low_(program[0].beta),
        table_(table_of(program, ops_)) {}
  size_t packed_bytes() const override { return table_.size() * sizeof(float); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* const y = reinterpret_cast<float*>(outputs[0]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      ops_.look_up(y + at[1], x + at[0], scale_, low_, table_.data(), count);
    });
  }

 private:
  Rows rows_;
  const RowOps& ops_;
  float scale_, low_;
  std::vector<float> table_;
};

/// Empty where it is another kind of program.
std::vector<Instruction> program_of(const Problem& problem) {
  std::vector<Instruction> program = *ops::program_of(*problem.node);
  const auto reads_input = [](const Instruction& step) {
    return step.a.reg == 0 || (ops::is_binary(step) && step.b.reg == 0);
  };
  const bool fits = problem.inputs.size() == 1 && program[0].id == expr::Id::FakeQuantize16 && program[0].a.reg == 0 &&
                    std::none_of(program.begin() + 1, program.end(), reads_input) && program[0].beta <= 0 &&
                    program[0].beta >= -65535 && !ops::gives_bytes(program);
  return fits ? program : std::vector<Instruction>();
}

Reason refuses(const Problem& problem) {
  const auto& x = problem.inputs[0];
  if (problem.inputs.size() != 1 || x.dtype != DType::f32 || problem.outputs[0].dtype != DType::f32)
    return {Reason::element_type, "its only operand", "f32"};
  if (program_of(problem).empty()) return {Reason::form, "program that begins with a rounding to 16 bits"};
  if (problem.outputs[0].dims.elements() < entries) return {Reason::too_few, entries, "elements"};
  const Rows rows(problem, 1);
  return rows.contiguous() && rows.step(0) == 1 ? Reason() : Reason(Reason::not_contiguous, "rows");
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<Table16Step>(problem, program_of(problem));
}

const backends::KernelRegistrar registered({"tenon:Elementwise", "table16", 2, refuses, make});

}  // namespace
}  // namespace tenon::cpu::program_int16
