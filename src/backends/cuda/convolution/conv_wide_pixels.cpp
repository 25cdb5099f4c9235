// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cuda/convolution/int8_conv.h"

namespace tenon::cuda::conv_wide_pixels {
namespace {

const std::string prefix = "wide pixels ";
constexpr int64_t longest_row = 128, most_channels = 256;  // bytes of what is read, channels of what is made
constexpr size_t lists_at[] = {6, 7, 9};                   // of Int8Conv: scales of weights, result and residual

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

/// Neighbouring pixels that are read as one: rows of less than 128 bytes cost the copy engine and the cache as much as
/// whole ones.
int64_t pixels_of(const ConvShape& shape) {
  const auto element = static_cast<int64_t>(size_of(shape.x_type));
  for (const int64_t count : {4, 2})
    if (count * shape.in_c * element <= longest_row && count * shape.out_c <= most_channels &&
        shape.pixels() % count == 0)
      return count;
  return 1;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() != 90) return {Reason::capability, "it", "9.0"};
  ConvShape s{};
  if (const Reason reason = any_conv_shape(problem, s)) return reason;
  if (const Reason reason = refuses_added_zeros(problem)) return reason;
  if (s.x_type == DType::f32) return {Reason::element_type, "elements", "f16, bf16 or bytes"};
  if (s.kernel_h * s.kernel_w != 1 || s.stride_h != 1 || s.stride_w != 1 || s.pad_top || s.pad_left || s.groups != 1 ||
      s.in_h != s.out_h || s.in_w != s.out_w)
    return Reason::pointwise;
  if (problem.node->text("layout", "") != "NHWC" || problem.node->text("input_layout", "") == "NCHW")
    return {Reason::layout, "NHWC"};
  for (size_t at : {size_t{0}, size_t{3}})
    if (has(problem, at) && !problem.inputs[at].dense()) return {Reason::gaps, "pixels"};
  if (!problem.outputs[0].dense()) return {Reason::gaps, "pixels"};
  if (!problem.inputs[1].constant || (has(problem, 2) && !problem.inputs[2].constant))
    return {Reason::not_constant, "the weights"};
  return pixels_of(s) == 1 ? Reason(Reason::no_tile) : Reason();
}

/// The list `count` times.
void repeat(Operand& list, int64_t count) {
  if (!list || list.constant.elements() <= 1) return;
  const Tensor once = list.constant;
  Tensor all(once.dtype(), {once.elements() * count});
  for (int64_t at = 0; at < count; ++at)
    std::memcpy(all.data<std::byte>() + static_cast<size_t>(at) * once.bytes(), once.data(), once.bytes());
  list.constant = all;
  list.dims = all.dims();
  list.strides = backends::dense_strides(list.dims);
}

/// One pixel for `count`, with their channels side by side: the weights stand on the diagonal.
struct WidePixels {
  ir::Node node;
  Problem problem;

  explicit WidePixels(const Problem& from) : node(*from.node), problem(from) {
    ConvShape s{};
    any_conv_shape(from, s);
    const int64_t count = pixels_of(s), rows = s.pixels() / count;
    for (const char* gone : {"pads", "kernel_shape", "auto_pad", "dilations"}) node.attributes.erase(gone);
    problem.node = &node;
    const auto join = [&](Operand& operand, int64_t channels) {
      operand.dims = {1, 1, rows, channels * count};
      operand.strides = backends::dense_strides(operand.dims);
    };
    join(problem.inputs[0], s.in_c), join(problem.outputs[0], s.out_c);
    if (has(problem, 3)) join(problem.inputs[3], s.out_c);
    if (has(problem, 2)) repeat(problem.inputs[2], count);
    if (is_int8(from))
      for (const size_t at : lists_at)
        if (has(problem, at)) repeat(problem.inputs[at], count);
    Operand& w = problem.inputs[1];
    const Tensor once = w.constant;
    w.dims = {s.out_c * count, s.in_c * count, 1, 1};
    w.strides = backends::dense_strides(w.dims);
    w.constant = Tensor(once.dtype(), w.dims);
    const size_t element = size_of(once.dtype()), row = static_cast<size_t>(s.in_c) * element;
    std::memset(w.constant.data<std::byte>(), 0, w.constant.bytes());
    for (int64_t at = 0; at < s.out_c * count; ++at)
      std::memcpy(w.constant.data<std::byte>() + (static_cast<size_t>(at * count + at / s.out_c)) * row,
                  once.data<std::byte>() + static_cast<size_t>(at % s.out_c) * row, row);
  }
  WidePixels(const WidePixels&) = delete;
};

/// Of the kernels for few and long pixels those that hold all constants themselves.
bool serves(const Choice& choice) { return choice.kernel->name == "wgmma"; }

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const WidePixels wide(problem);
  std::vector<Tactic> list;
  for (const Choice& inner : choices(wide.problem, properties))
    if (serves(inner)) list.push_back({prefix + inner.tactic.name, inner.tactic.sources, {}});
  return list;
}

class WidePixelsStep : public Step {
 public:
  WidePixelsStep(const Problem& problem, Device& device, const std::string& name) {
    const WidePixels wide(problem);
    const Choice inner = choose(wide.problem, device.properties(), name.substr(prefix.size()));
    inner_ = inner.kernel->make(wide.problem, device, inner.tactic);
  }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  bool leaves_breadcrumbs() const override { return inner_->leaves_breadcrumbs(); }
  void enqueue(const Launch& at) const override { inner_->enqueue(at); }

 private:
  std::unique_ptr<Step> inner_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<WidePixelsStep>(problem, device, tactic.name);
}

const KernelRegistrar registered({"Conv", "tenon:Int8Conv"}, {"", "wide pixels", 0, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::conv_wide_pixels
