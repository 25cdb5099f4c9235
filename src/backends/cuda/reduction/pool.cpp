// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/pool_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::pool {
namespace {

using Params = PoolParams;

bool channels_last(const Problem& problem) { return problem.node->text("layout", "") == "NHWC"; }

/// Strides as image, row, pixel, channel.
void strides_of(const Operand& operand, bool last, int64_t (&strides)[4]) {
  static constexpr size_t first_order[] = {0, 2, 3, 1}, last_order[] = {0, 1, 2, 3};
  for (size_t at = 0; at < 4; ++at) strides[at] = operand.strides[last ? last_order[at] : first_order[at]];
}

/// Channels a thread may take at once.
std::vector<int> vectors_of(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool last = channels_last(problem);
  int64_t xs[4], ys[4];
  strides_of(x, last, xs), strides_of(y, last, ys);
  const int64_t channels = x.dims[last ? 3 : 1];
  std::vector<int> list;
  for (int size = static_cast<int>(16 / size_of(x.dtype)); size > 1; size /= 2) {
    bool fits = xs[3] == 1 && ys[3] == 1 && channels % size == 0 && x.aligned && y.aligned;
    for (int at = 0; at < 3; ++at) fits = fits && xs[at] % size == 0 && ys[at] % size == 0;
    if (fits) list.push_back(size);
  }
  if (list.empty()) list.push_back(1);
  return list;
}

bool takes_largest(const Problem& problem) {
  return ops::traits_of(problem.node->op).reduction() == ops::Reduction::largest;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool bytes = (x.dtype == DType::u8 || x.dtype == DType::f8e4m3fn) && takes_largest(problem);
  if ((!is_real(x.dtype) && !bytes) || x.dtype != y.dtype)
    return {Reason::element_type, "elements", "f32, f16 or bf16, or of bytes in a maximum"};
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  if (problem.outputs.size() > 1 && problem.outputs[1]) return {Reason::wanted, "indices"};
  if (y.dims.elements() >= int64_t{1} << 31) return Reason::too_large;
  return {};
}

bool includes_padding(const Problem& problem) { return problem.node->integer("count_include_pad", 0) != 0; }

/// Maxima of small windows without dilation that each hold a pixel: where one lies outside, its nearest stands for it.
bool clamps(const Problem& problem, int vector) {
  const ir::Node& node = *problem.node;
  const auto kernel = node.integers("kernel_shape"), dilations = node.integers("dilations", {1, 1}),
             pads = node.integers("pads", {0, 0, 0, 0});
  const size_t bytes = size_of(problem.inputs[0].dtype) * static_cast<size_t>(vector);
  const DType type = problem.inputs[0].dtype;
  return takes_largest(problem) && type != DType::f32 && type != DType::f8e4m3fn && bytes >= 4 && vector > 1 &&
         dilations[0] == 1 && dilations[1] == 1 && node.text("auto_pad", "NOTSET") == "NOTSET" &&
         node.integer("ceil_mode", 0) == 0 && kernel[0] * kernel[1] <= 49 && pads[0] < kernel[0] &&
         pads[2] < kernel[0] && pads[1] < kernel[1] && pads[3] < kernel[1];
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const auto kernel = problem.node->integers("kernel_shape");
  std::vector<Tactic> list;
  for (const int vector : vectors_of(problem)) {
    const Source source = source_from(
        {"larger.cuh", "pool.cu"},
        {define_type("ELEMENT", problem.inputs[0].dtype), define("MAX", takes_largest(problem)),
         define("FLOAT8", problem.inputs[0].dtype == DType::f8e4m3fn), define("VEC", vector),
         define("INCLUDE_PAD", includes_padding(problem)), define("KH", kernel[0]), define("KW", kernel[1])});
    list.push_back({"pool " + std::to_string(vector), {source}, {vector, 0}});
    if (!clamps(problem, vector)) continue;
    const int64_t stride = problem.node->integers("strides", {1, 1})[1];
    for (const int strip : {1, 2, 4}) {
      Source strips = source;
      strips.defines.push_back(define("TW", strip));
      strips.defines.push_back(define("SW", stride));
      list.push_back({"pool " + std::to_string(vector) + "x" + std::to_string(strip), {strips}, {vector, strip}});
    }
  }
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  const ir::Node& node = *problem.node;
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool last = channels_last(problem);
  strides_of(x, last, params.xs), strides_of(y, last, params.ys);
  const size_t h = last ? 1 : 2;
  const auto kernel = node.integers("kernel_shape"), strides = node.integers("strides", {1, 1}),
             dilations = node.integers("dilations", {1, 1});
  auto pads = node.integers("pads", {0, 0, 0, 0});
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode == "VALID") pads = {0, 0, 0, 0};
  if (mode.starts_with("SAME"))
    for (size_t axis : {size_t{0}, size_t{1}}) {
      const int64_t total = std::max<int64_t>(
          0, (y.dims[axis + h] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - x.dims[axis + h]);
      pads[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[axis + 2] = total - pads[axis];
    }
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  params.in_h = number(x.dims[h]), params.in_w = number(x.dims[h + 1]);
  params.out_h = number(y.dims[h]), params.out_w = number(y.dims[h + 1]);
  params.channels = number(x.dims[last ? 3 : 1]);
  params.stride_h = number(strides[0]), params.stride_w = number(strides[1]);
  params.dilation_h = number(dilations[0]), params.dilation_w = number(dilations[1]);
  params.pad_top = number(pads[0]), params.pad_left = number(pads[1]);
  params.pad_bottom = number(pads[2]), params.pad_right = number(pads[3]);
  const int64_t strip = std::max(tactic.numbers[1], 1), out_w = y.dims[h + 1];
  params.count = number(y.dims.elements() / tactic.numbers[0] / out_w * ceil_div(out_w, strip));
  return simple_step<1>(device, tactic, tactic.numbers[1] ? "pool_strip" : "pool", params, grid_for(params.count));
}

const KernelRegistrar registered({"MaxPool", "AveragePool"}, {"", "pool", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::pool
