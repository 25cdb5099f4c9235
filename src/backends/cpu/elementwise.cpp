#include <string>

#include "backends/backend.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/rows.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;

/// Up to two operands broadcast over the output's axes, as rows of the innermost axis.
struct Rows {
  Dims dims;              // output, axes merged where every operand allows
  Dims strides[3];        // a, b, output; 0 where broadcast
  int operands = 0;

  Rows(const Problem& problem, int count) : operands(count) {
    const Operand& y = problem.outputs[0];
    const size_t rank = y.dims.rank();
    Dims full[3] = {y.dims, y.dims, y.strides};
    for (int k = 0; k < count; ++k) {
      const Operand& x = problem.inputs[static_cast<size_t>(k)];
      const size_t missing = rank - x.dims.rank();
      for (size_t axis = 0; axis < rank; ++axis)
        full[k][axis] = axis < missing || x.dims[axis - missing] == 1 ? 0 : x.strides[axis - missing];
    }
    for (size_t axis = 0; axis < rank; ++axis) {
      if (y.dims[axis] == 1) continue;
      const size_t last = dims.rank();
      bool merges = last > 0;
      for (int k : {0, 1, 2})
        if (merges && (k < count || k == 2)) merges = strides[k][last - 1] == full[k][axis] * y.dims[axis];
      if (merges) {
        dims[last - 1] *= y.dims[axis];
        for (int k : {0, 1, 2}) strides[k][last - 1] = full[k][axis];
      } else {
        dims.push_back(y.dims[axis]);
        for (int k : {0, 1, 2}) strides[k].push_back(full[k][axis]);
      }
    }
    if (dims.rank() == 0) {
      dims.push_back(1);
      for (Dims& stride : strides) stride.push_back(1);
    }
  }
  /// Whether the innermost axis has stride 0 or 1 in every operand.
  bool contiguous() const {
    const size_t last = dims.rank() - 1;
    for (int k = 0; k < operands; ++k)
      if (strides[k][last] > 1) return false;
    return strides[2][last] == 1 || dims[last] == 1;
  }

  template <class F>
  void each(const Worker& worker, F f) const {
    const size_t last = dims.rank() - 1;
    int64_t rows = 1;
    for (size_t axis = 0; axis < last; ++axis) rows *= dims[axis];
    if (rows < 2 * worker.count) {  // few long rows: each is cut
      for (int64_t row = 0; row < rows; ++row) {
        int64_t begin = dims[last] * worker.id / worker.count / 16 * 16, end = dims[last] * (worker.id + 1) / worker.count / 16 * 16;
        if (worker.id + 1 == worker.count) end = dims[last];
        if (begin < end) call(row, begin, end - begin, f);
      }
      return;
    }
    int64_t begin, end;
    worker.share(rows, begin, end);
    for (int64_t row = begin; row < end; ++row) call(row, 0, dims[last], f);
  }

 private:
  template <class F>
  void call(int64_t row, int64_t from, int64_t count, F& f) const {
    const size_t last = dims.rank() - 1;
    int64_t offset[3];
    for (int k : {0, 1, 2}) offset[k] = from * strides[k][last];
    for (size_t axis = last; axis-- > 0;) {
      const int64_t index = row % dims[axis];
      row /= dims[axis];
      for (int k : {0, 1, 2}) offset[k] += index * strides[k][axis];
    }
    f(offset, count);
  }
};

struct NamedBinary {
  const char* op;
  Binary binary;
};
constexpr NamedBinary binaries[] = {{"Add", Binary::add}, {"Sub", Binary::sub}, {"Mul", Binary::mul}, {"Div", Binary::div}, {"Max", Binary::max}, {"Min", Binary::min}};

class BinaryStep : public backends::Step {
 public:
  BinaryStep(const Problem& problem, Binary op) : rows_(problem, 2), op_(op), ops_(row_ops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const size_t last = rows_.dims.rank() - 1;
    const int a_step = static_cast<int>(rows_.strides[0][last]), b_step = static_cast<int>(rows_.strides[1][last]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) { ops_.binary(op_, y + at[2], a + at[0], a_step, b + at[1], b_step, count); });
  }

 private:
  Rows rows_;
  Binary op_;
  const RowOps& ops_;
};

class UnaryStep : public backends::Step {
 public:
  UnaryStep(const Problem& problem, Unary op, const Epilogue& activation) : rows_(problem, 1), op_(op), activation_(activation), ops_(row_ops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) { ops_.unary(op_, activation_, y + at[2], x + at[0], count); });
  }

 private:
  Rows rows_;
  Unary op_;
  Epilogue activation_;
  const RowOps& ops_;
};

const char* refuses_rows(const Problem& problem, size_t operands) {
  if (problem.inputs.size() < operands) return "too few operands";
  for (size_t at = 0; at < operands; ++at)
    if (problem.inputs[at].dtype != DType::f32) return "only f32";
  if (problem.outputs[0].dims.elements() == 0) return "nothing to do";
  return Rows(problem, static_cast<int>(operands)).contiguous() ? nullptr : "rows are not contiguous";
}

const char* refuses_binary(const Problem& problem) { return problem.inputs.size() != 2 ? "only two operands" : refuses_rows(problem, 2); }

std::unique_ptr<backends::Step> make_binary(const Problem& problem) {
  for (const NamedBinary& entry : binaries)
    if (problem.node->op == entry.op) return std::make_unique<BinaryStep>(problem, entry.binary);
  return nullptr;
}

/// The unary loop of a node and its parameters; false where there is none.
bool unary_of(const Problem& problem, Unary& op, Epilogue& epilogue) {
  const ir::Node& node = *problem.node;
  static constexpr std::pair<const char*, Unary> plain[] = {{"Neg", Unary::neg}, {"Abs", Unary::abs}, {"Exp", Unary::exp}, {"Sqrt", Unary::sqrt}, {"Reciprocal", Unary::reciprocal}, {"Erf", Unary::erf}};
  for (const auto& [name, unary] : plain)
    if (node.op == name) {
      op = unary;
      return true;
    }
  static constexpr std::pair<const char*, Activation> activations[] = {{"Relu", Activation::relu}, {"Sigmoid", Activation::sigmoid}, {"Silu", Activation::silu}, {"HardSwish", Activation::hard_swish}, {"Tanh", Activation::tanh}, {"Mish", Activation::mish}};
  op = Unary::activation;
  for (const auto& [name, activation] : activations)
    if (node.op == name) {
      epilogue.act = activation;
      return true;
    }
  if (node.op == "LeakyRelu") return epilogue = {Activation::leaky_relu, node.real("alpha", 0.01f)}, true;
  if (node.op == "HardSigmoid") return epilogue = {Activation::hard_sigmoid, node.real("alpha", 0.2f), node.real("beta", 0.5f)}, true;
  if (node.op == "Elu") return epilogue = {Activation::elu, node.real("alpha", 1.f)}, true;
  if (node.op == "Gelu") return epilogue = {node.text("approximate", "none") == "tanh" ? Activation::gelu_tanh : Activation::gelu}, true;
  if (node.op == "Clip") {
    epilogue = {Activation::clip, -3.402823466e38f, 3.402823466e38f};
    for (size_t at : {size_t{1}, size_t{2}})
      if (problem.inputs.size() > at && problem.inputs[at]) {
        if (!problem.inputs[at].constant || problem.inputs[at].constant.elements() != 1) return false;
        (at == 1 ? epilogue.alpha : epilogue.beta) = *problem.inputs[at].constant.data<float>();
      }
    return true;
  }
  return false;
}

const char* refuses_unary(const Problem& problem) {
  if (const char* reason = refuses_rows(problem, 1)) return reason;
  Unary op;
  Epilogue epilogue;
  return unary_of(problem, op, epilogue) ? nullptr : "its bounds are not constant";
}

std::unique_ptr<backends::Step> make_unary(const Problem& problem) {
  Unary op;
  Epilogue epilogue;
  unary_of(problem, op, epilogue);
  return std::make_unique<UnaryStep>(problem, op, epilogue);
}

struct Register {
  Register() {
    for (const NamedBinary& entry : binaries) backends::KernelRegistrar({entry.op, "rows", 1, refuses_binary, make_binary});
    for (const char* op : {"Neg", "Abs", "Exp", "Sqrt", "Reciprocal", "Erf", "Relu", "Sigmoid", "Silu", "HardSwish", "Tanh", "Mish", "LeakyRelu", "HardSigmoid", "Elu", "Gelu", "Clip"})
      backends::KernelRegistrar({op, "rows", 1, refuses_unary, make_unary});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cpu
