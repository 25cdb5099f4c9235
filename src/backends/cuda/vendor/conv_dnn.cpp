// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/vendor/dnn.h"

#include <tenon/error.h>

namespace tenon::cuda::conv_dnn {
namespace {

using namespace dnn_constants;

constexpr int most_choices = 2, most_guesses = 8;
constexpr int64_t most_workspace = int64_t{64} << 20;
constexpr double least_products = 2.5e8;  // plans take long to make, and do not pay for small layers

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

/// The mode of an activation; -1 where there is none, -2 where the library has none for it.
int mode_of(expr::Id activation) {
  switch (activation) {
    case expr::Id::Identity: return -1;
    case expr::Id::Relu:
    case expr::Id::Clip: return relu;
    case expr::Id::Silu: return swish;
    case expr::Id::Sigmoid: return sigmoid;
    default: return -2;
  }
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (!problem.vendor) return Reason::vendors;
  if (const Reason reason = refuses_added_zeros(problem)) return reason;  // it may choose Winograd
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  ConvShape s{};
  if (const Reason reason = conv_shape(problem, s)) return reason;
  if (!is_16_bit(s.x_type) || s.y_type != s.x_type) return {Reason::element_type, "elements", "f16 or bf16"};
  if (s.x[3] != 1 || s.y[3] != 1 || (has(problem, 3) && s.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  for (int at = 0; at < 3; ++at)
    if (s.x[at] % 8 || s.y[at] % 8 || s.residual[at] % 8) return {Reason::unaligned, "pixels"};
  // Some of the library's kernels take no others.
  if (!s.is_pitched(s.x, s.in_h, s.in_w) || !is_pitched(s, s.y) || (has(problem, 3) && !is_pitched(s, s.residual)))
    return {Reason::gaps, "pixels"};
  if (s.channels_in() % 8 || s.channels_out() % 8) return {Reason::not_multiple, "channels", "16 bytes"};
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned || (has(problem, 3) && !problem.inputs[3].aligned))
    return {Reason::unaligned, "operand"};
  if (mode_of(conv_epilogue(problem).activation) == -2)
    return {Reason::activation, "one that the vendor's library has"};
  if (static_cast<double>(s.pixels()) * static_cast<double>(s.out_c * s.depth()) < least_products)
    return {Reason::too_few, static_cast<int64_t>(least_products), "products"};
  // Last, as the library is large.
  return dnn().why.empty() ? Reason() : Reason(Reason::library, "cuDNN");
}

std::vector<Tactic> tactics(const Problem&, const Properties&) {
  std::vector<Tactic> list;
  for (int at = 0; at < most_choices; ++at) list.push_back({"cudnn " + std::to_string(at + 1), {}, {at}});
  return list;
}

/// A convolution with what follows it as a graph of the library's operations. Sizes and strides are of images,
/// channels, rows, columns.
class Operations {
 public:
  enum Id : int64_t { x_id = 1, w_id, bias_id, residual_id, y_id };

  Operations(const Problem& problem, const ConvShape& s)
      : type_(s.x_type == DType::f16 ? f16 : bf16), epilogue_(conv_epilogue(problem)), bias_(has(problem, 2)) {
    const std::vector<int64_t> out{s.batch, s.out_c, s.out_h, s.out_w};
    const auto places = [](const int64_t(&strides)[4]) {
      return std::vector<int64_t>{strides[0], strides[3], strides[1], strides[2]};
    };
    const int64_t c = s.channels_in(), k = s.out_c;
    const size_t x = add_tensor(x_id, {s.batch, s.in_c, s.in_h, s.in_w}, places(s.x), type_);
    const size_t w =
        add_tensor(w_id, {k, c, s.kernel_h, s.kernel_w}, {s.kernel_h * s.kernel_w * c, 1, s.kernel_w * c, c}, type_);
    const std::vector<int64_t> dense{s.out_h * s.out_w * k, 1, s.out_w * k, k};
    const bool before = epilogue_.residual == ops::Residual::before, after = epilogue_.residual == ops::Residual::after;
    const int mode = mode_of(epilogue_.activation);
    // How many results there are until the last, which alone lies in memory.
    int left = bias_ + before + (mode >= 0) + after;
    int64_t next = y_id + 1;
    const auto result = [&] {
      return left-- > 0 ? add_tensor(next++, out, dense, f32, true) : add_tensor(y_id, out, places(s.y), type_);
    };
    size_t y = result();
    add_convolution(s, x, w, y);
    using Numbers = std::vector<int64_t>;
    const auto then = [&](int what, int64_t other, const Numbers& strides, const Numbers& sizes) {
      const size_t from = y;
      const size_t b = other ? add_tensor(other, sizes, strides, type_) : 0;
      y = result();
      add_step(what, from, other ? &tensors_[b] : nullptr, y);
    };
    if (bias_) then(add, bias_id, {k, 1, k, k}, {1, k, 1, 1});
    if (before) then(add, residual_id, places(s.residual), out);
    if (mode >= 0) then(mode, 0, {}, {});
    if (after) then(add, residual_id, places(s.residual), out);
  }

  DnnDescriptor graph(DnnHandle handle) const {
    DnnDescriptor graph(operation_graph);
    std::vector<void*> list;
    for (const DnnDescriptor& operation : operations_) list.push_back(operation.get());
    graph.set(graph_operations, of_descriptor, static_cast<int64_t>(list.size()), list.data());
    graph.set(graph_handle, of_handle, 1, &handle);
    graph.finalize();
    return graph;
  }

 private:
  size_t add_tensor(int64_t id, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int type,
                    bool passing = false) {
    DnnDescriptor made(tensor);
    made.set(tensor_type, of_type, type);
    made.set(tensor_sizes, sizes);
    made.set(tensor_strides, strides);
    made.set(tensor_id, id);
    made.set(tensor_alignment, int64_t{16});
    if (passing) made.set(tensor_virtual, of_bool, 1, &passing);
    made.finalize();
    tensors_.push_back(std::move(made));
    return tensors_.size() - 1;
  }
  void add_convolution(const ConvShape& s, size_t x, size_t w, size_t y) {
    const auto post = [](int64_t out, int64_t in, int stride, int pad, int taps, int dilation) {
      return std::max<int64_t>(0, (out - 1) * stride + int64_t{taps - 1} * dilation + 1 - in - pad);
    };
    DnnDescriptor conv(convolution);
    conv.set(conv_type, of_type, f32);
    conv.set(conv_mode, of_conv_mode, cross_correlation);
    conv.set(conv_axes, int64_t{2});
    conv.set(conv_pre_pads, {s.pad_top, s.pad_left});
    conv.set(conv_post_pads, {post(s.out_h, s.in_h, s.stride_h, s.pad_top, s.kernel_h, s.dilation_h),
                              post(s.out_w, s.in_w, s.stride_w, s.pad_left, s.kernel_w, s.dilation_w)});
    conv.set(conv_strides, {s.stride_h, s.stride_w});
    conv.set(conv_dilations, {s.dilation_h, s.dilation_w});
    conv.finalize();
    DnnDescriptor operation(forward);
    const float one = 1, none = 0;
    operation.set(forward_x, tensors_[x]);
    operation.set(forward_w, tensors_[w]);
    operation.set(forward_y, tensors_[y]);
    operation.set(forward_conv, conv);
    operation.set(forward_alpha, of_f32, 1, &one);
    operation.set(forward_beta, of_f32, 1, &none);
    operation.finalize();
    parts_.push_back(std::move(conv));
    operations_.push_back(std::move(operation));
  }
  void add_step(int what, size_t x, const DnnDescriptor* other, size_t y) {
    DnnDescriptor how(pointwise);
    how.set(pointwise_mode, of_pointwise_mode, what);
    how.set(pointwise_type, of_type, f32);
    if (what == relu && epilogue_.activation == expr::Id::Clip) {
      const double low = epilogue_.alpha, high = epilogue_.beta;
      how.set(lower_clip, of_f64, 1, &low);
      how.set(upper_clip, of_f64, 1, &high);
    }
    how.finalize();
    DnnDescriptor operation(step);
    operation.set(step_pointwise, how);
    operation.set(step_x, tensors_[x]);
    if (other) operation.set(step_b, *other);
    operation.set(step_y, tensors_[y]);
    operation.finalize();
    parts_.push_back(std::move(how));
    operations_.push_back(std::move(operation));
  }

  int type_;
  ops::Epilogue epilogue_;
  bool bias_;
  std::vector<DnnDescriptor> tensors_, parts_, operations_;
};

class DnnStep : public Step {
 public:
  DnnStep(const Problem& problem, Device& device, const Tactic& tactic)
      : handle_(dnn_handle(device.properties().index)),
        bias_(has(problem, 2)),
        residual_(has(problem, 3) && conv_epilogue(problem).residual != ops::Residual::none) {
    ConvShape s{};
    conv_shape(problem, s);
    pack_weights(problem, s);
    const Operations operations(problem, s);
    choose(operations.graph(handle_), tactic.numbers[0]);
    run_once(problem);
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(workspace_); }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  bool leaves_breadcrumbs() const override { return false; }
  void enqueue(const Launch& at) const override {
    std::vector<int64_t> ids{Operations::x_id, Operations::w_id, Operations::y_id};
    std::vector<Address> pointers{at.inputs[0], packed_.address(), at.outputs[0]};
    if (bias_) ids.push_back(Operations::bias_id), pointers.push_back(packed_.address() + bias_at_);
    if (residual_) ids.push_back(Operations::residual_id), pointers.push_back(at.inputs[3]);
    DnnDescriptor pack(variant_pack);
    pack.set(pack_ids, ids);
    pack.set(pack_pointers, of_pointer, static_cast<int64_t>(pointers.size()), pointers.data());
    pack.set(pack_workspace, of_pointer, 1, &at.workspace);
    pack.finalize();
    dnn_execute(handle_, at.stream, plan_->get(), pack.get());
  }

 private:
  /// The library loads kernels when they first run, which must not be while a stream is captured.
  void run_once(const Problem& problem) {
    const auto room = [](const Operand& operand) {
      int64_t last = 1;
      for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
        last += (operand.dims[axis] - 1) * operand.strides[axis];
      return Buffer(static_cast<size_t>(last) * size_of(operand.dtype));
    };
    const Buffer x = room(problem.inputs[0]), y = room(problem.outputs[0]), workspace(workspace_bytes());
    const Buffer other = residual_ ? room(problem.inputs[3]) : Buffer();
    const Address inputs[] = {x.address(), 0, 0, other.address()}, outputs[] = {y.address()};
    enqueue({nullptr, inputs, outputs, workspace.address()});
    check(driver().CtxSynchronize(), "cuCtxSynchronize");
  }
  /// Weights by channel of the result, channels last, and behind them the bias.
  void pack_weights(const Problem& problem, const ConvShape& s) {
    std::vector<uint16_t> numbers;
    for (const float weight : conv_weights(problem, s)) numbers.push_back(bits16_of(weight, s.x_type));
    numbers.resize((numbers.size() + 127) / 128 * 128);
    bias_at_ = numbers.size() * 2;
    for (const float one : conv_bias(problem, s)) numbers.push_back(bits16_of(one, s.x_type));
    packed_ = Buffer::kept(numbers.size() * 2);
    packed_.upload(numbers.data(), packed_.bytes());
  }
  /// The plan of the library's guess of this place, among those that it can make.
  void choose(const DnnDescriptor& graph, int place) {
    DnnDescriptor guesses(heuristics);
    guesses.set(heuristics_graph, graph);
    guesses.set(heuristics_mode, of_heuristics_mode, mode_a);
    guesses.finalize();
    std::vector<DnnDescriptor> configs;
    std::vector<void*> list;
    for (int at = 0; at < most_guesses; ++at) configs.emplace_back(engine_config), list.push_back(configs.back().get());
    int64_t count = 0;
    check_dnn(
        dnn().BackendGetAttribute(guesses.get(), heuristics_results, of_descriptor, most_guesses, &count, list.data()),
        "cudnnBackendGetAttribute");
    for (int64_t at = 0; at < std::min<int64_t>(count, most_guesses); ++at) {
      DnnDescriptor plan(execution_plan);
      plan.set(plan_handle, of_handle, 1, &handle_);
      plan.set(plan_config, configs[static_cast<size_t>(at)]);
      if (dnn().BackendFinalize(plan.get()) != 0) continue;
      check_dnn(dnn().BackendGetAttribute(plan.get(), plan_workspace, of_i64, 1, nullptr, &workspace_),
                "cudnnBackendGetAttribute");
      if (workspace_ > most_workspace || place-- > 0) continue;
      plan_.emplace(std::move(plan));
      return;
    }
    throw Error(Code::unsupported, "cuDNN has no plan for a convolution");
  }

  DnnHandle handle_;
  bool bias_, residual_;
  size_t bias_at_ = 0;
  int64_t workspace_ = 0;
  Buffer packed_;
  std::optional<DnnDescriptor> plan_;
};

const KernelRegistrar conv({"Conv", "cudnn", -2, refuses, tactics, make_step<DnnStep>});

}  // namespace
}  // namespace tenon::cuda::conv_dnn
