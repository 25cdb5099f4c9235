// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "backends/cpu/affine_program.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/int8/byte_table.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/rows.h"
#include "ops/elementwise_program.h"

namespace tenon::cpu::program {
namespace {

using backends::Problem;
using backends::Reason;
using ops::Instruction;

constexpr int64_t strip = 512;     // elements a program works on at a time, so that its registers stay in L1
constexpr int64_t least_bytes = 64;         // of a line that is not copied beside others
constexpr int64_t most_in_place = 8 << 10;  // elements of lines taken together
constexpr int64_t short_row = 16;  // below this, rows that are no lines are gathered into strips

std::vector<Instruction> program_of(const Problem& problem) {
  return ops::parse_program(std::get<std::vector<std::string>>(problem.node->attributes.at("program")),
                            problem.inputs.size());
}

/// A fused tree of elementwise nodes, a strip of elements at a time. A register holds numbers, or bytes that `quant`
/// makes and `dequant` reads.
class ProgramStep : public backends::Step {
 public:
  explicit ProgramStep(const Problem& problem, std::optional<AffineProgram> affine = std::nullopt)
      : rows_(problem, problem.inputs.size()),
        walk_(walk_of(rows_)),
        inputs_(problem.inputs.size()),
        program_(program_of(problem)),
        affine_(std::move(affine)),
        run_affine_(byte_affine(isa_for(problem))),
        gives_bytes_(ops::gives_bytes(program_)),
        threads_(problem.threads),
        ops_(row_ops(isa_for(problem))),
        loops_(loops(isa_for(problem))) {
    for (size_t k = 0; k < inputs_; ++k) is_bytes_[k] = problem.inputs[k].dtype == DType::u8;
    is_gate_.resize(program_.size());
    for (size_t k = 0; k < program_.size(); ++k) is_gate_[k] = finds_gate(k);
    // One call for a row is worth no copy.
    if (program_.size() == 3 && is_gate_[2] && has_rows(rows_)) walk_ = Walk::rows;
    if (affine_ && rows_.row_length() >= least_bytes && walk_ == Walk::lines) walk_ = Walk::lines_in_place;
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(threads_) * worker_bytes(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* const own = reinterpret_cast<float*>(worker.workspace + static_cast<size_t>(worker.id) * worker_bytes());
    if (walk_ == Walk::gathered) return run_gathered(inputs, outputs[0], own, worker);
    if (walk_ == Walk::lines) return run_lines(inputs, outputs[0], own, worker);
    if (walk_ == Walk::lines_in_place) return run_in_place(inputs, outputs[0], worker);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      for (int64_t begin = 0; begin < count; begin += strip) {
        Sources sources;
        for (size_t k = 0; k < inputs_; ++k)
          sources[k] = inputs[k] + (at[k] + begin * rows_.step(k)) * size_of_element(is_bytes_[k]);
        evaluate(sources, own, outputs[0] + (at[inputs_] + begin) * size_of_element(gives_bytes_),
                 std::min(strip, count - begin));
      }
    });
  }

 private:
  using Sources = std::array<const std::byte*, Rows::most_operands>;
  /// As they lie; several short ones side by side in a strip, or each where it lies; element by element, where two axes
  /// hold few.
  enum class Walk { rows, lines, lines_in_place, gathered };

  static bool has_rows(const Rows& rows) { return rows.contiguous() && rows.row_length() >= short_row; }
  static Walk walk_of(const Rows& rows) {
    if (rows.has_lines(strip / 2)) return Walk::lines;
    return has_rows(rows) ? Walk::rows : Walk::gathered;
  }
  static int64_t size_of_element(bool bytes) { return bytes ? 1 : sizeof(float); }
  /// Whether step k multiplies the two before it, which nobody else reads: a tanh and a sigmoid.
  bool finds_gate(size_t k) const {
    if (k < 2 || program_[k].id != expr::Id::Mul) return false;
    const int first = static_cast<int>(inputs_ + k) - 2;
    const auto reads = [&](const Instruction& step, int reg) { return step.a.reg == reg || step.b.reg == reg; };
    if (!reads(program_[k], first) || !reads(program_[k], first + 1) || reads(program_[k - 1], first)) return false;
    for (size_t later = k + 1; later < program_.size(); ++later)
      if (reads(program_[later], first) || reads(program_[later], first + 1)) return false;
    const expr::Id ids[] = {program_[k - 2].id, program_[k - 1].id};
    return (ids[0] == expr::Id::Tanh && ids[1] == expr::Id::Sigmoid) ||
           (ids[0] == expr::Id::Sigmoid && ids[1] == expr::Id::Tanh);
  }

  /// Strips each worker holds: results of the program, then gathered inputs and the output.
  size_t registers() const {
    return program_.size() + (walk_ == Walk::lines || walk_ == Walk::gathered ? inputs_ + 1 : 0);
  }
  size_t worker_bytes() const { return set_apart(registers() * strip * sizeof(float)); }

  void run_lines(std::byte* const* inputs, std::byte* y, float* own, const Worker& worker) const {
    float* const copies = own + static_cast<int64_t>(program_.size()) * strip;
    auto* const apart = reinterpret_cast<std::byte*>(copies + static_cast<int64_t>(inputs_) * strip);
    const auto take = [&](const int64_t* at, int64_t lines) {
      Sources sources;
      for (size_t k = 0; k < inputs_; ++k) {
        float* const to = copies + static_cast<int64_t>(k) * strip;
        if (is_bytes_[k])
          sources[k] = reinterpret_cast<const std::byte*>(rows_.beside(
              k, reinterpret_cast<const uint8_t*>(inputs[k]) + at[k], lines, reinterpret_cast<uint8_t*>(to)));
        else
          sources[k] = reinterpret_cast<const std::byte*>(
              rows_.beside(k, reinterpret_cast<const float*>(inputs[k]) + at[k], lines, to));
      }
      std::byte* const output = y + at[inputs_] * size_of_element(gives_bytes_);
      std::byte* const result = rows_.is_beside() ? output : apart;
      evaluate(sources, own, result, lines * rows_.row_length());
      if (result != apart) return;
      if (gives_bytes_)
        rows_.store_apart(reinterpret_cast<const uint8_t*>(apart), lines, reinterpret_cast<uint8_t*>(output));
      else rows_.store_apart(reinterpret_cast<const float*>(apart), lines, reinterpret_cast<float*>(output));
    };
    rows_.each_beside(worker, take, strip);
  }

  /// Of an affine program.
  void run_in_place(std::byte* const* inputs, std::byte* y, const Worker& worker) const {
    const auto count = static_cast<size_t>(affine_->affine.count);
    std::array<int64_t, ByteAffine::most> pitches;
    std::array<const void*, ByteAffine::most> operands;
    for (size_t k = 0; k < count; ++k) {
      const size_t input = affine_->inputs[k];
      pitches[k] = rows_.pitch(input) * size_of_element(is_bytes_[input]);
    }
    const auto take = [&](const int64_t* at, int64_t lines) {
      for (size_t k = 0; k < count; ++k) {
        const size_t input = affine_->inputs[k];
        operands[k] = inputs[input] + at[input] * size_of_element(is_bytes_[input]);
      }
      auto* to = reinterpret_cast<uint8_t*>(y) + at[inputs_];
      for (int64_t line = 0; line < lines; ++line, to += rows_.pitch(inputs_)) {
        run_affine_(affine_->affine, operands.data(), to, rows_.row_length());
        for (size_t k = 0; k < count; ++k) operands[k] = static_cast<const std::byte*>(operands[k]) + pitches[k];
      }
    };
    rows_.each_beside(worker, take, most_in_place);
  }

  void run_gathered(std::byte* const* inputs, std::byte* y, float* own, const Worker& worker) const {
    float* gathered = own + program_.size() * strip;
    float* result = gathered + inputs_ * strip;
    int64_t begin, end;
    worker.share((rows_.elements() + strip - 1) / strip, begin, end);
    for (int64_t first = begin * strip; first < end * strip && first < rows_.elements(); first += strip) {
      const int64_t count = std::min(strip, rows_.elements() - first);
      Sources sources;
      for (size_t k = 0; k < inputs_; ++k) {
        float* const to = gathered + k * strip;
        sources[k] = reinterpret_cast<const std::byte*>(to);
        if (is_bytes_[k])
          rows_.gather(k, reinterpret_cast<const uint8_t*>(inputs[k]), first, count, reinterpret_cast<uint8_t*>(to));
        else rows_.gather(k, reinterpret_cast<const float*>(inputs[k]), first, count, to);
      }
      evaluate(sources, own, reinterpret_cast<std::byte*>(result), count);
      if (gives_bytes_)
        rows_.scatter(reinterpret_cast<const uint8_t*>(result), first, count, reinterpret_cast<uint8_t*>(y));
      else rows_.scatter(result, first, count, reinterpret_cast<float*>(y));
    }
  }

  void evaluate(const Sources& sources, float* registers, std::byte* y, int64_t count) const {
    if (affine_) {
      std::array<const void*, ByteAffine::most> operands;
      for (size_t k = 0; k < operands.size(); ++k) operands[k] = sources[affine_->inputs[k]];
      return run_affine_(affine_->affine, operands.data(), reinterpret_cast<uint8_t*>(y), count);
    }
    for (size_t k = 0; k < program_.size(); ++k) {
      if (k + 2 < program_.size() && is_gate_[k + 2]) k += 2;
      const Instruction& step = program_[k];
      float* dst = k + 1 == program_.size() ? reinterpret_cast<float*>(y) : registers + static_cast<int64_t>(k) * strip;
      const auto operand = [&](const Instruction::Operand& from, int& stride) -> const float* {
        stride = from.reg < 0 ? 0 : 1;
        if (from.reg < 0) return &from.number;
        const auto reg = static_cast<size_t>(from.reg);
        if (reg >= inputs_) return registers + static_cast<int64_t>(reg - inputs_) * strip;
        stride = walk_ != Walk::rows ? 1 : rows_.step(reg);
        return reinterpret_cast<const float*>(sources[reg]);
      };
      int a_step;
      if (is_gate_[k]) {
        const bool tanh_first = program_[k - 2].id == expr::Id::Tanh;
        int b_step;
        const float *tanh = operand(program_[tanh_first ? k - 2 : k - 1].a, a_step),
                    *sigmoid = operand(program_[tanh_first ? k - 1 : k - 2].a, b_step);
        ops_.gate(dst, tanh, a_step, sigmoid, b_step, count);
        continue;
      }
      const float* a = operand(step.a, a_step);
      if (step.id == expr::Id::Dequant) dequantise(step, dst, reinterpret_cast<const uint8_t*>(a), a_step, count);
      else if (step.id == expr::Id::Quant) quantise(step, reinterpret_cast<uint8_t*>(dst), a, a_step, count);
      else if (ops::is_binary(step)) {
        int b_step;
        const float* b = operand(step.b, b_step);
        ops_.binary(step.id, dst, a, a_step, b, b_step, count);
      } else {
        ops_.unary(step.id, step.alpha, step.beta, dst, a, a_step ? count : 1);
        if (!a_step) std::fill_n(dst, count, *dst);
      }
    }
  }

  // One byte or number for all elements, or one for each.
  void dequantise(const Instruction& step, float* dst, const uint8_t* a, int a_step, int64_t count) const {
    loops_.dequantise_u8(dst, a, step.alpha, static_cast<int32_t>(step.beta), a_step ? count : 1);
    if (!a_step) std::fill_n(dst, count, *dst);
  }
  void quantise(const Instruction& step, uint8_t* dst, const float* a, int a_step, int64_t count) const {
    loops_.quantise_u8(dst, a, step.alpha, static_cast<int32_t>(step.beta), a_step ? count : 1);
    if (!a_step) std::fill_n(dst, count, *dst);
  }

  Rows rows_;
  Walk walk_;
  size_t inputs_;
  std::array<bool, Rows::most_operands> is_bytes_{};
  std::vector<Instruction> program_;
  std::optional<AffineProgram> affine_;
  RunByteAffine run_affine_;
  std::vector<bool> is_gate_;  // of each step, in whose place and that of the two before it one runs
  bool gives_bytes_;
  int threads_;
  const RowOps& ops_;
  const Loops& loops_;
};

/// A program from byte to byte: what each of the 256 becomes.
class TableStep : public backends::Step {
 public:
  explicit TableStep(const Problem& problem) : rows_(problem, 1), look_up_(byte_table(isa_for(problem))) {
    const std::vector<Instruction> program = program_of(problem);
    for (size_t byte = 0; byte < table_.size(); ++byte) {
      std::vector<float> registers{static_cast<float>(byte)};
      const auto value = [&](const Instruction::Operand& from) {
        return from.reg < 0 ? from.number : registers[static_cast<size_t>(from.reg)];
      };
      for (const Instruction& step : program) registers.push_back(ops::apply(step, value(step.a), value(step.b)));
      table_[byte] = static_cast<uint8_t>(registers.back());
    }
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const uint8_t*>(inputs[0]);
    auto* const y = reinterpret_cast<uint8_t*>(outputs[0]);
    if (rows_.has_lines(most_bytes))
      return rows_.each_beside(
          worker,
          [&](const int64_t* at, int64_t lines) {
            look_up_({y + at[1], rows_.pitch(1), x + at[0], rows_.pitch(0), lines, rows_.row_length()}, table_.data());
          },
          most_bytes);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      look_up_({y + at[1], 0, x + at[0], 0, 1, count}, table_.data());
    });
  }

 private:
  static constexpr int64_t most_bytes = 8 << 10;  // of lines that are taken together

  Rows rows_;
  ByteTable look_up_;
  std::array<uint8_t, 256> table_;
};

bool is_table(const Problem& problem) {
  if (problem.inputs.size() != 1 || problem.inputs[0].dtype != DType::u8 || problem.outputs[0].dtype != DType::u8)
    return false;
  const Rows rows(problem, 1);
  return rows.contiguous() && rows.step(0) == 1;
}

Reason refuses_table(const Problem& problem) {
  return is_table(problem) ? Reason() : Reason(Reason::element_type, "rows on both sides", "bytes");
}

/// The program, if it is one that runs in registers and its inputs lie along the rows.
std::optional<AffineProgram> affine_of(const Problem& problem) {
  if (problem.outputs[0].dtype != DType::u8) return std::nullopt;
  std::array<bool, Rows::most_operands> are_bytes;
  const size_t count = problem.inputs.size();
  for (size_t k = 0; k < count; ++k) are_bytes[k] = problem.inputs[k].dtype == DType::u8;
  const auto affine = affine_program(program_of(problem), std::span(are_bytes).first(count));
  if (!affine) return std::nullopt;
  const Rows rows(problem, count);
  if (!rows.contiguous()) return std::nullopt;
  for (size_t k = 0; k < count; ++k)
    if (rows.step(k) != 1) return std::nullopt;
  return affine;
}

Reason refuses_any(const Problem& problem) {
  if (problem.inputs.empty() || problem.inputs.size() > Rows::most_operands)
    return {Reason::too_many, Rows::most_operands, "operands"};
  for (const backends::Operand& operand : problem.inputs)
    if (operand.dtype != DType::f32 && operand.dtype != DType::u8)
      return {Reason::element_type, "elements", "f32 or u8"};
  if (is_table(problem)) return Reason::other_kernel;
  return problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}

Reason refuses(const Problem& problem) {
  if (const Reason reason = refuses_any(problem)) return reason;
  return affine_of(problem) ? Reason(Reason::other_kernel) : Reason();
}

Reason refuses_affine(const Problem& problem) {
  if (const Reason reason = refuses_any(problem)) return reason;
  return affine_of(problem) ? Reason() : Reason(Reason::other_kernel);
}

std::unique_ptr<backends::Step> make_affine(const Problem& problem) {
  return std::make_unique<ProgramStep>(problem, affine_of(problem));
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ProgramStep>(problem); }

std::unique_ptr<backends::Step> make_table(const Problem& problem) { return std::make_unique<TableStep>(problem); }

const backends::KernelRegistrar registered({"tenon:Elementwise", "program", 1, refuses, make});
const backends::KernelRegistrar affine({"tenon:Elementwise", "bytes", 1, refuses_affine, make_affine});
const backends::KernelRegistrar table({"tenon:Elementwise", "table", 2, refuses_table, make_table});

}  // namespace
}  // namespace tenon::cpu::program
