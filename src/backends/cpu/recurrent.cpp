// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/byte_grid.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/int8/byte_rows.h"
#include "backends/cpu/row_product.h"
#include "base/pages.h"

namespace tenon::cpu::recurrent {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

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

using MakeProduct = decltype(&float_product);

/// LSTM and GRU with their usual activations, and RNN: the inputs of all steps in one product, then a product for each
/// step.
class RecurrentStep : public backends::Step {
 public:
  /// `product`: makes those of the states.
  RecurrentStep(const Problem& problem, MakeProduct product)
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
        in_.push_back(product_of_inputs(problem, product, {sequence_ * batch_, input, rows, rows}, d, in_bias));
      back_.push_back(product({batch_, hidden_, first, rows}, weights + d * rows * hidden_,
                              std::vector<float>(back_bias.begin(), back_bias.begin() + first), problem));
      if (gates_ == 3)
        candidate_.push_back(product({batch_, hidden_, hidden_, rows}, weights + (d * rows + first) * hidden_,
                                     std::vector<float>(back_bias.begin() + first, back_bias.end()), problem));
    }
    if (!complete()) return;
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const auto& product : *list)
        kernel_bytes_ = std::max(kernel_bytes_, (product->workspace_bytes() + 63) / 64 * 64);
    for (const size_t at : {1, 2}) {
      if (!present(problem, at)) continue;
      const Tensor& constant = problem.inputs[at].constant;
      release_pages(constant.data(), constant.bytes());
    }
  }
  bool complete() const {
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const auto& product : *list)
        if (!product) return false;
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
      for (const auto& product : *list) bytes += product->packed_bytes();
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
      if (!slots_.projected) in_[d]->run(reinterpret_cast<const float*>(inputs[0]), x_gates, worker);
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
        back_[d]->run(h, gates, worker);
        if (gates_ == 3 && reset_last_) candidate_[d]->run(h, gates + 2 * hidden_, worker);
        worker.sync();
        const float* from = slots_.projected ? reinterpret_cast<const float*>(inputs[0]) + t * batch_ * pitch + d * rows
                                             : x_gates + t * batch_ * rows;
        if (gates_ == 3 && !reset_last_) {
          each_row([&](int64_t n, int64_t at, int64_t count) {
            mask(from + n * pitch, gates + n * rows, h + at, masked + at, begin, count);
          });
          worker.sync();
          candidate_[d]->run(masked, gates + 2 * hidden_, worker);
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
  /// Inputs may have weights of another kind than states.
  static std::unique_ptr<RowProduct> product_of_inputs(const Problem& problem, MakeProduct product,
                                                       const RowProduct::Sizes& sizes, int64_t direction,
                                                       const std::vector<float>& bias) {
    const float* const weights = problem.inputs[1].constant.data<float>() + direction * sizes.n * sizes.k;
    std::unique_ptr<RowProduct> made = product(sizes, weights, bias, problem);
    return made ? std::move(made) : float_product(sizes, weights, bias, problem);
  }
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
  std::vector<std::unique_ptr<RowProduct>> in_, back_, candidate_;
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

/// Why the products of the states are not those of weights of 8 bits.
Reason refuses_bytes(const Problem& problem) {
  if (problem.strict || problem.fused) return {Reason::strict, "f32"};
  if (!byte_row_ops(isa_for(problem))) return Reason::instruction_set;
  const Operand& back = problem.inputs[slots_of(problem).back];
  // Where other rows are different floats are multiplied.
  if (!may_be_bytes(back.constant.data<float>(), back.dims[0] * back.dims[1], back.dims[2]))
    return {Reason::element_type, "weights", "8 bits"};
  return {};
}
template <Reason (*refuses)(const Problem&)>
Reason refuses_with_bytes(const Problem& problem) {
  const Reason reason = refuses(problem);
  return reason ? reason : refuses_bytes(problem);
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  auto step = std::make_unique<RecurrentStep>(problem, &float_product);
  if (step->complete()) return step;
  return backends::reference_kernel().make(problem);
}
std::unique_ptr<backends::Step> make_bytes(const Problem& problem) {
  auto step = std::make_unique<RecurrentStep>(problem, &byte_product);
  if (step->complete()) return step;
  return make(problem);
}

const backends::KernelRegistrar lstm({"LSTM", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar gru({"GRU", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar rnn({"RNN", "steps", 1, refuses_any<refuses>, make_any<make>, "direct"});
const backends::KernelRegistrar steps({"tenon:Recurrence", "steps", 1, refuses_any<refuses_steps>, make_any<make>,
                                       "direct"});

constexpr auto refuses_any_bytes = refuses_any<refuses_with_bytes<refuses>>;
constexpr const char* byte_files = "direct byte_rows";
const backends::KernelRegistrar lstm_bytes({"LSTM", "byte_steps", 2, refuses_any_bytes, make_any<make_bytes>,
                                            byte_files});
const backends::KernelRegistrar gru_bytes({"GRU", "byte_steps", 2, refuses_any_bytes, make_any<make_bytes>,
                                           byte_files});
const backends::KernelRegistrar rnn_bytes({"RNN", "byte_steps", 2, refuses_any_bytes, make_any<make_bytes>,
                                           byte_files});
const backends::KernelRegistrar bytes({"tenon:Recurrence", "byte_steps", 2,
                                       refuses_any<refuses_with_bytes<refuses_steps>>, make_any<make_bytes>,
                                       byte_files});

}  // namespace
}  // namespace tenon::cpu::recurrent
