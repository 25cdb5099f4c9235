// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/packing.h"

namespace tenon::cpu::recurrent {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

/// Rows times a constant matrix (n x k, row-major) plus a constant bias, by all workers together.
struct Product {
  Packed packed;
  std::unique_ptr<ConvKernel> kernel;

  Product(int64_t m, int64_t k, int64_t n, int64_t out_pitch, const float* weights, const std::vector<float>& bias,
          const Problem& problem) {
    ConvShape shape{};
    shape.batch = shape.in_h = shape.out_h = 1;
    shape.in_w = shape.out_w = m;
    shape.in_c = k;
    shape.out_c = n;
    shape.kernel_h = shape.kernel_w = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w =
        shape.groups = 1;
    shape.in_pixel = k;
    shape.in_row = shape.in_image = m * k;
    shape.out_pixel = out_pitch;
    shape.out_row = shape.out_image = m * out_pitch;
    const ConvTactic* chosen = nullptr;
    for (const char* name : {"gemv", "direct"})
      for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
        if (!chosen && !std::strcmp(tactic.name, name) && !tactic.refuses(shape, {})) chosen = &tactic;
    if (!chosen) return;
    packed = packed_from(weights, 0, problem, *chosen, shape, [&] {
      return Tensor::view(DType::f32, {n, k}, const_cast<float*>(weights));
    });
    kernel = chosen->make(shape, {}, floats_of(*packed), bias.data(), problem.threads);
  }
};

/// Places of the operands; a tenon:Recurrence has the product of the inputs behind it.
struct Slots {
  bool projected;
  size_t back, first, first_cell;
};
Slots slots_of(const Problem& problem) {
  return problem.node->has("cell") ? Slots{true, 1, 3, 4} : Slots{false, 2, 5, 6};
}

/// Four of an LSTM, three of a GRU, one of an RNN.
int64_t gates_of(const Problem& problem) {
  const Dims& back = problem.inputs[slots_of(problem).back].dims;
  return back[2] ? back[1] / back[2] : 0;
}

/// What an RNN may apply in a direction.
std::optional<expr::Id> curve_named(const std::string& name) {
  if (name == "Tanh") return expr::Id::Tanh;
  if (name == "Relu") return expr::Id::Relu;
  if (name == "Sigmoid") return expr::Id::Sigmoid;
  return std::nullopt;
}

/// The activations of an LSTM, a GRU or an RNN, as the node names them.
std::vector<std::string> activations_of(const Problem& problem) {
  if (!problem.node->has("activations")) return {};
  const auto* names = std::get_if<std::vector<std::string>>(&problem.node->attributes.at("activations"));
  return names ? *names : std::vector<std::string>();
}

/// LSTM and GRU with their usual activations, and RNN: the inputs of all steps in one product, then a product for each
/// step.
class RecurrentStep : public backends::Step {
 public:
  explicit RecurrentStep(const Problem& problem)
      : slots_(slots_of(problem)),
        gates_(gates_of(problem)),
        reset_last_(slots_.projected || problem.node->integer("linear_before_reset", 0) != 0),
        outputs_(problem.outputs.size()),
        ops_(row_ops(isa_for(problem))) {
    const Dims &x = problem.inputs[0].dims, &r = problem.inputs[slots_.back].dims;
    sequence_ = x[0], batch_ = x[1], hidden_ = r[2], directions_ = r[0];
    reverse_ = problem.node->text("direction", "forward") == "reverse";
    initial_h_ = present(problem, slots_.first), initial_c_ = gates_ == 4 && present(problem, slots_.first_cell);
    const std::vector<std::string> names = activations_of(problem);
    for (int64_t d = 0; gates_ == 1 && d < directions_; ++d)
      curves_.push_back(names.empty() ? expr::Id::Tanh : *curve_named(names[d]));
    const int64_t rows = gates_ * hidden_, input = x[2];
    const float* weights = problem.inputs[slots_.back].constant.data<float>();
    for (int64_t d = 0; d < directions_; ++d) {
      std::vector<float> in_bias(static_cast<size_t>(rows)), back_bias(static_cast<size_t>(rows));
      if (slots_.projected && present(problem, 2)) {
        std::copy_n(problem.inputs[2].constant.data<float>() + d * hidden_, hidden_, back_bias.end() - hidden_);
      } else if (!slots_.projected && present(problem, 3)) {
        const float* b = problem.inputs[3].constant.data<float>() + d * 2 * rows;
        std::copy_n(b, rows, in_bias.begin());
        std::copy_n(b + rows, rows, back_bias.begin());
      }
      const int64_t first = gates_ == 3 ? 2 * hidden_ : rows;  // gates that take the state as it is
      if (!slots_.projected)
        in_.emplace_back(sequence_ * batch_, input, rows, rows,
                         problem.inputs[1].constant.data<float>() + d * rows * input, in_bias, problem);
      back_.emplace_back(batch_, hidden_, first, rows, weights + d * rows * hidden_,
                         std::vector<float>(back_bias.begin(), back_bias.begin() + first), problem);
      if (gates_ == 3)
        candidate_.emplace_back(batch_, hidden_, hidden_, rows, weights + (d * rows + first) * hidden_,
                                std::vector<float>(back_bias.begin() + first, back_bias.end()), problem);
    }
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const Product& product : *list)
        if (product.kernel) kernel_bytes_ = std::max(kernel_bytes_, (product.kernel->workspace_bytes() + 63) / 64 * 64);
    for (const size_t at : {1, 2}) {
      if (!present(problem, at)) continue;
      const Tensor& constant = problem.inputs[at].constant;
      release_pages(constant.data(), constant.bytes());
    }
  }
  bool complete() const {
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const Product& product : *list)
        if (!product.kernel) return false;
    return true;
  }
  size_t workspace_bytes() const override {
    return kernel_bytes_ + static_cast<size_t>((slots_.projected ? 1 : sequence_ + 1) * batch_ * gates_ * hidden_ +
                                               3 * batch_ * hidden_) *
                               sizeof(float);
  }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const Product& product : *list) bytes += product.packed->size();
    return bytes;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const int64_t rows = gates_ * hidden_, state = batch_ * hidden_;
    auto* x_gates = reinterpret_cast<float*>(worker.workspace + kernel_bytes_);
    float* gates = slots_.projected ? x_gates : x_gates + sequence_ * batch_ * rows;
    const int64_t pitch = slots_.projected ? directions_ * rows : rows;
    float *h = gates + batch_ * rows, *c = h + state, *masked = c + state;
    int64_t begin, end;
    worker.share((hidden_ + 15) / 16, begin, end);
    begin = std::min(begin * 16, hidden_), end = std::min(end * 16, hidden_);
    const auto each_row = [&](auto f) {
      for (int64_t n = 0; n < batch_ && begin < end; ++n) f(n, n * hidden_ + begin, end - begin);
    };
    for (int64_t d = 0; d < directions_; ++d) {
      if (!slots_.projected) in_[d].kernel->run(reinterpret_cast<const float*>(inputs[0]), nullptr, x_gates, worker);
      each_row([&](int64_t, int64_t at, int64_t count) {
        start(h + at, initial_h_ ? reinterpret_cast<const float*>(inputs[slots_.first]) + d * state + at : nullptr,
              count);
        if (gates_ == 4)
          start(c + at,
                initial_c_ ? reinterpret_cast<const float*>(inputs[slots_.first_cell]) + d * state + at : nullptr,
                count);
      });
      worker.sync();
      for (int64_t step = 0; step < sequence_; ++step) {
        const int64_t t = reverse_ || d == 1 ? sequence_ - 1 - step : step;
        back_[d].kernel->run(h, nullptr, gates, worker);
        if (gates_ == 3 && reset_last_) candidate_[d].kernel->run(h, nullptr, gates + 2 * hidden_, worker);
        worker.sync();
        const float* from = slots_.projected ? reinterpret_cast<const float*>(inputs[0]) + t * batch_ * pitch + d * rows
                                             : x_gates + t * batch_ * rows;
        if (gates_ == 3 && !reset_last_) {
          each_row([&](int64_t n, int64_t at, int64_t count) {
            mask(from + n * pitch, gates + n * rows, h + at, masked + at, begin, count);
          });
          worker.sync();
          candidate_[d].kernel->run(masked, nullptr, gates + 2 * hidden_, worker);
          worker.sync();
        }
        float* y = outputs[0] ? reinterpret_cast<float*>(outputs[0]) + (t * directions_ + d) * state : nullptr;
        each_row([&](int64_t n, int64_t at, int64_t count) {
          if (gates_ == 4) lstm(from + n * pitch, gates + n * rows, h + at, c + at, begin, count);
          else if (gates_ == 1) rnn(curves_[d], from + n * pitch, gates + n * rows, h + at, begin, count);
          else gru(from + n * pitch, gates + n * rows, h + at, begin, count);
          if (y) std::copy_n(h + at, count, y + at);
        });
        worker.sync();
      }
      each_row([&](int64_t, int64_t at, int64_t count) {
        if (wants(1) && outputs[1]) std::copy_n(h + at, count, reinterpret_cast<float*>(outputs[1]) + d * state + at);
        if (wants(2) && outputs[2]) std::copy_n(c + at, count, reinterpret_cast<float*>(outputs[2]) + d * state + at);
      });
      worker.sync();
    }
  }

 private:
  bool wants(size_t output) const { return output < outputs_; }
  static void start(float* state, const float* from, int64_t count) {
    if (from) std::copy_n(from, count, state);
    else std::fill_n(state, count, 0.f);
  }
  void add(float* to, const float* from, int64_t count) const { ops_.binary(expr::Id::Add, to, to, 1, from, 1, count); }
  void curve(expr::Id act, float* to, const float* from, int64_t count) const {
    ops_.unary(act, 0, 0, to, from, count);
  }
  /// Gates i, o, f, c from unit `first` on.
  void lstm(const float* in, float* gates, float* h, float* c, int64_t first, int64_t count) const {
    float* g[4];
    for (int64_t k = 0; k < 4; ++k) {
      g[k] = gates + k * hidden_ + first;
      add(g[k], in + k * hidden_ + first, count);
      curve(k == 3 ? expr::Id::Tanh : expr::Id::Sigmoid, g[k], g[k], count);
    }
    ops_.binary(expr::Id::Mul, c, c, 1, g[2], 1, count);
    ops_.binary(expr::Id::Mul, g[3], g[3], 1, g[0], 1, count);
    add(c, g[3], count);
    curve(expr::Id::Tanh, h, c, count);
    ops_.binary(expr::Id::Mul, h, h, 1, g[1], 1, count);
  }
  void rnn(expr::Id act, const float* in, float* gates, float* h, int64_t first, int64_t count) const {
    add(gates + first, in + first, count);
    curve(act, h, gates + first, count);
  }
  /// The reset gate, and the state under it.
  void mask(const float* in, float* gates, const float* h, float* masked, int64_t first, int64_t count) const {
    float* r = gates + hidden_ + first;
    add(r, in + hidden_ + first, count);
    curve(expr::Id::Sigmoid, r, r, count);
    ops_.binary(expr::Id::Mul, masked, h, 1, r, 1, count);
  }
  /// Gates z, r, h: h = h~ + z (h - h~).
  void gru(const float* in, float* gates, float* h, int64_t first, int64_t count) const {
    float *z = gates + first, *r = gates + hidden_ + first, *g = gates + 2 * hidden_ + first;
    add(z, in + first, count);
    curve(expr::Id::Sigmoid, z, z, count);
    if (reset_last_) {
      add(r, in + hidden_ + first, count);
      curve(expr::Id::Sigmoid, r, r, count);
      ops_.binary(expr::Id::Mul, g, g, 1, r, 1, count);
    }
    add(g, in + 2 * hidden_ + first, count);
    curve(expr::Id::Tanh, g, g, count);
    ops_.binary(expr::Id::Sub, h, h, 1, g, 1, count);
    ops_.binary(expr::Id::Mul, h, h, 1, z, 1, count);
    add(h, g, count);
  }

  Slots slots_;
  int64_t gates_;
  bool reset_last_, reverse_ = false, initial_h_ = false, initial_c_ = false;
  int64_t sequence_ = 0, batch_ = 0, hidden_ = 0, directions_ = 0;
  size_t kernel_bytes_ = 0, outputs_;
  std::vector<Product> in_, back_, candidate_;
  std::vector<expr::Id> curves_;  // of an RNN, by direction
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const ir::Node& node = *problem.node;
  for (size_t at = 0; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && at != 4 && problem.inputs[at].dtype != DType::f32)
      return {Reason::element_type, "elements", "f32"};
  for (size_t at : {size_t{1}, size_t{2}, size_t{3}})
    if (present(problem, at) && !problem.inputs[at].constant) return {Reason::not_constant, "the weights"};
  if (present(problem, 4)) return {Reason::shape, "sequences", "one length"};
  if (present(problem, 7)) return {Reason::wanted, "peepholes"};
  if (node.integer("layout", 0) || node.integer("input_forget", 0) || node.real("clip", 0) != 0)
    return {Reason::attribute, "layout, input_forget and clip", "0"};
  const int64_t gates = gates_of(problem);
  const std::vector<std::string> names = activations_of(problem);
  if (gates == 1) {
    for (const std::string& name : names)
      if (!curve_named(name)) return {Reason::activation, "Tanh, Relu or Sigmoid"};
    if (!names.empty() && static_cast<int64_t>(names.size()) < problem.inputs[2].dims[0])
      return {Reason::activation, "one for each direction"};
  } else {
    const std::vector<std::string> usual =
        gates == 4 ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"} : std::vector<std::string>{"Sigmoid", "Tanh"};
    for (size_t at = 0; at < names.size(); ++at)
      if (names[at] != usual[at % usual.size()]) return {Reason::activation, "the standard's own"};
  }
  if (problem.inputs[0].dims.elements() == 0 || problem.inputs[2].dims.elements() == 0) return Reason::empty;
  return {};
}

/// Of a tenon:Recurrence.
Reason refuses_steps(const Problem& problem) {
  for (const Operand& operand : problem.inputs)
    if (operand && operand.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (!problem.inputs[1].constant || (present(problem, 2) && !problem.inputs[2].constant))
    return {Reason::not_constant, "the weights"};
  if (problem.inputs[0].dims.elements() == 0 || problem.inputs[1].dims.elements() == 0) return Reason::empty;
  return {};
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  auto step = std::make_unique<RecurrentStep>(problem);
  if (step->complete()) return step;
  return backends::reference_kernel().make(problem);
}

const backends::KernelRegistrar lstm({"LSTM", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar gru({"GRU", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar rnn({"RNN", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar steps({"tenon:Recurrence", "steps", 1, refuses_any<refuses_steps>, make_any<make>,
                                       "direct"});

}  // namespace
}  // namespace tenon::cpu::recurrent
