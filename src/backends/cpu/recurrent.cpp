// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/byte_grid.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/int8/byte_rows.h"
#include "backends/cpu/recurrent.h"
#include "backends/cpu/row_product.h"
#include "base/pages.h"

namespace tenon::cpu::recurrent {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

std::optional<expr::Id> curve_named(const std::string& name) {
  if (name == "Tanh") return expr::Id::Tanh;
  if (name == "Relu") return expr::Id::Relu;
  if (name == "Sigmoid") return expr::Id::Sigmoid;
  return std::nullopt;
}

std::vector<std::string> activations_of(const Problem& problem) {
  if (!problem.node->has("activations")) return {};
  const auto* names = std::get_if<std::vector<std::string>>(&problem.node->attributes.at("activations"));
  return names ? *names : std::vector<std::string>();
}

Layer::Layer(const Problem& problem) : projected(problem.node->has("cell")) {
  back = projected ? 1 : 2, first = projected ? 3 : 5, first_cell = first + 1;
  const Dims &x = problem.inputs[0].dims, &r = problem.inputs[back].dims;
  gates = r[2] ? r[1] / r[2] : 0;
  reset_last = projected || problem.node->integer("linear_before_reset", 0) != 0;
  reverse = problem.node->text("direction", "forward") == "reverse";
  initial_h = present(problem, first), initial_c = gates == 4 && present(problem, first_cell);
  sequence = x[0], batch = x[1], inputs = x[2], hidden = r[2], directions = r[0];
  const std::vector<std::string> names = activations_of(problem);
  for (int64_t d = 0; gates == 1 && d < directions; ++d)
    curves.push_back(names.empty() ? expr::Id::Tanh : *curve_named(names[static_cast<size_t>(d)]));
}

std::vector<float> Layer::in_bias(const Problem& problem, int64_t direction) const {
  std::vector<float> bias(static_cast<size_t>(rows()));
  if (!projected && present(problem, 3))
    std::copy_n(problem.inputs[3].constant.data<float>() + direction * 2 * rows(), rows(), bias.begin());
  return bias;
}

std::vector<float> Layer::back_bias(const Problem& problem, int64_t direction) const {
  std::vector<float> bias(static_cast<size_t>(rows()));
  if (projected && present(problem, 2))
    std::copy_n(problem.inputs[2].constant.data<float>() + direction * hidden, hidden, bias.end() - hidden);
  else if (!projected && present(problem, 3))
    std::copy_n(problem.inputs[3].constant.data<float>() + (direction * 2 + 1) * rows(), rows(), bias.begin());
  return bias;
}

namespace {

/// By weights of 8 bits: the inputs of all steps in one product, then a product for each step.
class RecurrentStep : public backends::Step {
 public:
  explicit RecurrentStep(const Problem& problem)
      : layer_(problem), outputs_(problem.outputs.size()), ops_(row_ops(isa_for(problem))) {
    const int64_t rows = layer_.rows();
    const float* weights = problem.inputs[layer_.back].constant.data<float>();
    for (int64_t d = 0; d < layer_.directions; ++d) {
      const std::vector<float> back_bias = layer_.back_bias(problem, d);
      const int64_t first = layer_.gates == 3 ? 2 * layer_.hidden : rows;  // gates that take the state as it is
      if (!layer_.projected)
        in_.push_back(product_of_inputs(problem, {layer_.sequence * layer_.batch, layer_.inputs, rows, rows}, d,
                                        layer_.in_bias(problem, d)));
      back_.push_back(byte_product({layer_.batch, layer_.hidden, first, rows}, weights + d * rows * layer_.hidden,
                                   std::vector<float>(back_bias.begin(), back_bias.begin() + first), problem));
      if (layer_.gates == 3)
        candidate_.push_back(byte_product({layer_.batch, layer_.hidden, layer_.hidden, rows},
                                          weights + (d * rows + first) * layer_.hidden,
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
    return kernel_bytes_ + static_cast<size_t>((layer_.projected ? 1 : layer_.sequence + 1) * layer_.batch *
                                                   layer_.gates * layer_.hidden +
                                               3 * layer_.batch * layer_.hidden) *
                               sizeof(float);
  }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const auto* list : {&in_, &back_, &candidate_})
      for (const auto& product : *list) bytes += product->packed_bytes();
    return bytes;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const int64_t rows = layer_.gates * layer_.hidden, state = layer_.batch * layer_.hidden;
    auto* x_gates = reinterpret_cast<float*>(worker.workspace + kernel_bytes_);
    float* gates = layer_.projected ? x_gates : x_gates + layer_.sequence * layer_.batch * rows;
    const int64_t pitch = layer_.projected ? layer_.directions * rows : rows;
    float *h = gates + layer_.batch * rows, *c = h + state, *masked = c + state;
    int64_t begin, end;
    worker.share((layer_.hidden + 15) / 16, begin, end);
    begin = std::min(begin * 16, layer_.hidden), end = std::min(end * 16, layer_.hidden);
    const auto each_row = [&](auto f) {
      for (int64_t n = 0; n < layer_.batch && begin < end; ++n) f(n, n * layer_.hidden + begin, end - begin);
    };
    for (int64_t d = 0; d < layer_.directions; ++d) {
      if (!layer_.projected) in_[d]->run(reinterpret_cast<const float*>(inputs[0]), x_gates, worker);
      each_row([&](int64_t, int64_t at, int64_t count) {
        start(h + at,
              layer_.initial_h ? reinterpret_cast<const float*>(inputs[layer_.first]) + d * state + at : nullptr,
              count);
        if (layer_.gates == 4)
          start(c + at,
                layer_.initial_c ? reinterpret_cast<const float*>(inputs[layer_.first_cell]) + d * state + at : nullptr,
                count);
      });
      worker.sync();
      for (int64_t step = 0; step < layer_.sequence; ++step) {
        const int64_t t = layer_.time(d, step);
        back_[d]->run(h, gates, worker);
        if (layer_.gates == 3 && layer_.reset_last) candidate_[d]->run(h, gates + 2 * layer_.hidden, worker);
        worker.sync();
        const float* from = layer_.projected
                                ? reinterpret_cast<const float*>(inputs[0]) + t * layer_.batch * pitch + d * rows
                                : x_gates + t * layer_.batch * rows;
        if (layer_.gates == 3 && !layer_.reset_last) {
          each_row([&](int64_t n, int64_t at, int64_t count) {
            mask(from + n * pitch, gates + n * rows, h + at, masked + at, begin, count);
          });
          worker.sync();
          candidate_[d]->run(masked, gates + 2 * layer_.hidden, worker);
          worker.sync();
        }
        float* y = outputs[0] ? reinterpret_cast<float*>(outputs[0]) + (t * layer_.directions + d) * state : nullptr;
        each_row([&](int64_t n, int64_t at, int64_t count) {
          if (layer_.gates == 4) lstm(from + n * pitch, gates + n * rows, h + at, c + at, begin, count);
          else if (layer_.gates == 1) rnn(layer_.curves[d], from + n * pitch, gates + n * rows, h + at, begin, count);
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
  static std::unique_ptr<RowProduct> product_of_inputs(const Problem& problem, const RowProduct::Sizes& sizes,
                                                       int64_t direction, const std::vector<float>& bias) {
    const float* const weights = problem.inputs[1].constant.data<float>() + direction * sizes.n * sizes.k;
    std::unique_ptr<RowProduct> made = byte_product(sizes, weights, bias, problem);
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
      g[k] = gates + k * layer_.hidden + first;
      add(g[k], in + k * layer_.hidden + first, count);
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
    float* r = gates + layer_.hidden + first;
    add(r, in + layer_.hidden + first, count);
    curve(expr::Id::Sigmoid, r, r, count);
    ops_.binary(expr::Id::Mul, masked, h, 1, r, 1, count);
  }
  /// Gates z, r, h: h = h~ + z (h - h~).
  void gru(const float* in, float* gates, float* h, int64_t first, int64_t count) const {
    float *z = gates + first, *r = gates + layer_.hidden + first, *g = gates + 2 * layer_.hidden + first;
    add(z, in + first, count);
    curve(expr::Id::Sigmoid, z, z, count);
    if (layer_.reset_last) {
      add(r, in + layer_.hidden + first, count);
      curve(expr::Id::Sigmoid, r, r, count);
      ops_.binary(expr::Id::Mul, g, g, 1, r, 1, count);
    }
    add(g, in + 2 * layer_.hidden + first, count);
    curve(expr::Id::Tanh, g, g, count);
    ops_.binary(expr::Id::Sub, h, h, 1, g, 1, count);
    ops_.binary(expr::Id::Mul, h, h, 1, z, 1, count);
    add(h, g, count);
  }

  Layer layer_;
  size_t kernel_bytes_ = 0, outputs_;
  std::vector<std::unique_ptr<RowProduct>> in_, back_, candidate_;
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
  const Dims& r = problem.inputs[2].dims;
  const int64_t gates = r[2] ? r[1] / r[2] : 0;
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
  if (problem.strict) return {Reason::strict, "f32"};
  const Operand& back = problem.inputs[Layer(problem).back];
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
  if (auto step = make_cells(problem, Layer(problem))) return step;
  return backends::reference_kernel().make(problem);
}
std::unique_ptr<backends::Step> make_bytes(const Problem& problem) {
  auto step = std::make_unique<RecurrentStep>(problem);
  if (step->complete()) return step;
  return make(problem);
}

constexpr const char* files = "direct cells";
const backends::KernelRegistrar lstm({"LSTM", "steps", 1, refuses_any<refuses>, make_any<make>, files});
const backends::KernelRegistrar gru({"GRU", "steps", 1, refuses_any<refuses>, make_any<make>, files});
const backends::KernelRegistrar rnn({"RNN", "steps", 1, refuses_any<refuses>, make_any<make>, files});
const backends::KernelRegistrar steps({"tenon:Recurrence", "steps", 1, refuses_any<refuses_steps>, make_any<make>,
                                       files});

constexpr auto refuses_any_bytes = refuses_any<refuses_with_bytes<refuses>>;
constexpr const char* byte_files = "direct byte_rows cells";
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
