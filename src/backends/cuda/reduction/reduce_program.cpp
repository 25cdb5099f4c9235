// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/elementwise/program_text.h"
#include "backends/cuda/reduction/reduce.h"
#include "backends/cuda/reduction/reduce_program_params.h"
#include "ops/op.h"

/// Reductions of what an elementwise program gives, which is never stored.
namespace tenon::cuda::reduce_program {
namespace {

constexpr size_t most_operands = 8, most_axes = 4;  // of rows
using Params = ReduceProgramParams;

/// What the operands broadcast to.
Dims whole_of(const Problem& problem) {
  Dims dims;
  for (const Operand& operand : problem.inputs) {
    while (dims.rank() < operand.dims.rank()) dims.insert(0, 1);
    const size_t missing = dims.rank() - operand.dims.rank();
    for (size_t axis = 0; axis < operand.dims.rank(); ++axis) {
      int64_t& size = dims[missing + axis];
      if (size == 1) size = operand.dims[axis];
    }
  }
  return dims;
}

/// Axes that run on in all operands as one: its size, and the stride of each.
struct Run {
  int64_t size = 1;
  std::vector<int64_t> strides;
};

std::vector<Run> runs_of(const Problem& problem, const Dims& dims, size_t begin, size_t end) {
  std::vector<Run> runs;
  for (size_t axis = begin; axis < end; ++axis) {
    if (dims[axis] == 1) continue;
    Run run{dims[axis], {}};
    for (const Operand& operand : problem.inputs) {
      const size_t missing = dims.rank() - operand.dims.rank();
      const bool repeats = axis < missing || operand.dims[axis - missing] == 1;
      run.strides.push_back(repeats ? 0 : operand.strides[axis - missing]);
    }
    bool joins = !runs.empty();
    for (size_t at = 0; joins && at < run.strides.size(); ++at)
      joins = runs.back().strides[at] == run.strides[at] * run.size;
    if (joins) run.size *= runs.back().size, runs.back() = run;
    else runs.push_back(run);
  }
  return runs;
}

Reason shape_of(const Problem& problem, Params& params) {
  const Operand& y = problem.outputs[0];
  if (problem.inputs.size() > most_operands) return {Reason::too_many, most_operands, "operands"};
  for (const Operand& operand : problem.inputs)
    if (!is_real(operand.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!is_real(y.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!y.dense()) return {Reason::view, "a result"};
  const Dims dims = whole_of(problem);
  const auto rank = static_cast<int64_t>(dims.rank());
  std::vector<int64_t> axes = problem.node->integers("axes");
  for (int64_t& axis : axes)
    if (axis < 0) axis += rank;
  std::sort(axes.begin(), axes.end());
  for (size_t at = 1; at < axes.size(); ++at)
    if (axes[at] != axes[at - 1] + 1) return {Reason::attribute, "axes", "neighbours"};
  if (dims.elements() == 0) return Reason::empty;
  const auto first = static_cast<size_t>(axes.front()), behind = static_cast<size_t>(axes.back()) + 1;
  const std::vector<Run> outer = runs_of(problem, dims, 0, first), along = runs_of(problem, dims, first, behind),
                         beside = runs_of(problem, dims, behind, dims.rank());
  if (outer.size() > most_axes) return {Reason::too_many, most_axes, "axes of rows"};
  if (along.size() > 1 || beside.size() > 1) return {Reason::not_contiguous, "operands along the axes"};
  params = {};
  for (size_t axis = 0; axis < outer.size(); ++axis) {
    const size_t to = most_axes - outer.size() + axis;
    params.dims[to] = static_cast<unsigned>(outer[axis].size), params.outer *= outer[axis].size;
    for (size_t at = 0; at < problem.inputs.size(); ++at) params.rows[at][to] = outer[axis].strides[at];
  }
  const auto only = [](const std::vector<Run>& runs, int64_t& size, int64_t(&strides)[most_operands]) {
    if (runs.empty()) return;
    size = runs[0].size;
    std::copy(runs[0].strides.begin(), runs[0].strides.end(), strides);
  };
  only(along, params.length, params.along);
  only(beside, params.inner, params.beside);
  return params.outer >= int64_t{1} << 32 ? Reason(Reason::too_large) : Reason();
}

Reason refuses(const Problem& problem, const Properties&) {
  Params params;
  return shape_of(problem, params);
}

/// Whether an operand has a number for each of several neighbours of inner.
bool is_whole(const Params& params, size_t operand, int vector) { return vector > 1 && params.beside[operand] != 0; }

std::vector<int> vectors_of(const Problem& problem, const Params& params) {
  size_t widest = 0;
  for (const Operand& operand : problem.inputs) widest = std::max(widest, size_of(operand.dtype));
  std::vector<int> list;
  for (auto vector = static_cast<int>(16 / widest); vector > 1; vector /= 2) {
    bool fits = params.inner > 1 && params.inner % vector == 0;
    for (size_t at = 0; fits && at < problem.inputs.size(); ++at) {
      if (params.beside[at] == 0) continue;
      fits = params.beside[at] == 1 && problem.inputs[at].aligned && params.along[at] % vector == 0;
      for (const int64_t stride : params.rows[at]) fits = fits && stride % vector == 0;
    }
    if (fits) list.push_back(vector);
  }
  list.push_back(1);
  return list;
}

/// The Reader of reduce.cu: operands that are the same along length are read once.
std::string reader_of(const Problem& problem, const Params& params, int vector) {
  std::string members, places, begins, values;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const std::string n = std::to_string(at), type = type_name(problem.inputs[at].dtype);
    const bool whole = is_whole(params, at, vector), stays = params.along[at] == 0;
    const std::string bytes = std::to_string(size_of(problem.inputs[at].dtype) * static_cast<size_t>(vector));
    const std::string taken = whole ? "V" + n : type;
    if (whole)
      members += "  struct __align__(" + bytes + ") V" + n + " { " + type + " e[" + std::to_string(vector) + "]; };\n";
    members += stays ? "  " + taken + " in" + n + ";\n" : "  const " + type + "* x" + n + "; i64 step" + n + ";\n";
    places += "    i64 o" + n + " = first * p.beside[" + n + "];\n";
    begins +=
        stays ? "    in" + n + " = *(const " + taken + "*)((const " + type + "*)p.operand[" + n + "] + o" + n + ");\n"
              : "    x" + n + " = (const " + type + "*)p.operand[" + n + "] + o" + n + ", step" + n + " = p.along[" +
                    n + "];\n";
    if (!stays)
      values += "    const " + taken + " in" + n + " = *(const " + taken + "*)(x" + n + " + k * step" + n + ");\n";
  }
  std::string offsets, floats;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const std::string n = std::to_string(at);
    offsets += "      o" + n + " += at * p.rows[" + n + "][axis];\n";
    floats += "    const float v" + n + " = f32_of(in" + n + (is_whole(params, at, vector) ? ".e[e]" : "") + ");\n";
  }
  const bool fast = is_16_bit(problem.outputs[0].dtype);
  return "#define PROGRAM\n#include \"reduce_program_params.h\"\ntypedef tenon::cuda::ReduceProgramParams Params;\n"
         "struct Reader {\n" +
         members +
         "  __device__ __forceinline__ Reader(const Params& p, i64 outer, i64 first) {\n    u32 rest = outer;\n" +
         places +
         "#pragma unroll\n    for (int axis = 3; axis >= 0; --axis) {\n"
         "      const u32 at = axis ? rest % p.dims[axis] : rest;\n      rest /= p.dims[axis];\n" +
         offsets + "    }\n" + begins +
         "  }\n  __device__ __forceinline__ void read(i64 k, float (&values)[VEC]) const {\n" + values +
         "#pragma unroll\n    for (int e = 0; e < VEC; ++e) {\n" + floats + "    float r;\n" +
         program_text(*ops::program_of(*problem.node), problem.inputs.size(), fast) +
         "    values[e] = r;\n    }\n  }\n};\n";
}

reduce::Extent extent_of(const Params& params) { return {params.outer, params.length, params.inner}; }

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Params params;
  shape_of(problem, params);
  const reduce::Extent extent = extent_of(params);
  const auto reduction = ops::traits_of(ir::OpId(problem.node->text("reduction", ""))).reduction();
  std::vector<Tactic> list = reduce::tactics_for(extent, vectors_of(problem, params), properties);
  for (Tactic& tactic : list)
    tactic.sources = {{"reduce.cu", reduce::defines_of(tactic, extent, reduction, problem.outputs[0].dtype),
                       reader_of(problem, params, tactic.numbers[0]) + std::string(kernel_text("reduce.cu"))}};
  return list;
}

class ReduceProgramStep : public Step {
 public:
  ReduceProgramStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), operands_(problem.inputs.size()), function_(device.function(tactic.sources[0], "reduce")) {
    shape_of(problem, params_);
    grid_ = reduce::grid_of(tactic, extent_of(params_));
  }
  bool reads(size_t input) const override { return input < operands_; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    std::copy_n(at.inputs, operands_, params.operand);
    params.y = at.outputs[0];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  size_t operands_;
  Function function_;
  Grid grid_;
  Params params_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<ReduceProgramStep>(problem, device, tactic);
}

const KernelRegistrar registered({"tenon:ElementwiseReduce", "reduce", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::reduce_program
