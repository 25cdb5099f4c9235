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

bool gives_indices(const Problem& problem) { return problem.outputs.size() > 1 && problem.outputs[1]; }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool bytes = (x.dtype == DType::u8 || x.dtype == DType::f8e4m3fn) && takes_largest(problem);
  if ((!is_real(x.dtype) && !bytes) || x.dtype != y.dtype)
    return {Reason::element_type, "elements", "f32, f16 or bf16, or of bytes in a maximum"};
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
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

/// What stands for a window without pixels, where indices are given.
const char* lowest_of(DType type) {
  switch (type) {
    case DType::f32: return "-3.402823466e38f";
    case DType::f16: return "-65504.f";
    case DType::bf16: return "-3.389531390e38f";
    case DType::f8e4m3fn: return "-448.f";
    default: return "0.f";
  }
}

Source source_of(const Problem& problem, int vector) {
  const auto kernel = problem.node->integers("kernel_shape");
  const DType type = problem.inputs[0].dtype;
  return source_from({"larger.cuh", "pool.cu"}, {define_type("ELEMENT", type), define("MAX", takes_largest(problem)),
                                                 define("FLOAT8", type == DType::f8e4m3fn), define("VEC", vector),
                                                 define("INCLUDE_PAD", includes_padding(problem)),
                                                 define("KH", kernel[0]), define("KW", kernel[1])});
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  if (gives_indices(problem)) {
    Source source = source_of(problem, 1);
    source.defines.push_back(std::string("LOWEST_NUMBER=") + lowest_of(problem.inputs[0].dtype));
    return {{"indices", {source}, {1, 0}}};
  }
  std::vector<Tactic> list;
  for (const int vector : vectors_of(problem)) {
    const Source source = source_of(problem, vector);
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

class IndicesStep : public Step {
 public:
  IndicesStep(Device& device, const Tactic& tactic, const Params& params)
      : device_(device), function_(device.function(tactic.sources[0], "pool_indices")), params_(params) {}
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.at = at.outputs[1];
    launch(device_, function_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_;
};

Params params_of(const Problem& problem) {
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
  params.by_columns = node.integer("storage_order", 0) != 0;
  if (gives_indices(problem)) strides_of(problem.outputs[1], last, params.is);
  return params;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params = params_of(problem);
  const Operand& y = problem.outputs[0];
  if (gives_indices(problem)) {
    params.count = static_cast<int>(y.dims.elements());
    return std::make_unique<IndicesStep>(device, tactic, params);
  }
  const int64_t strip = std::max(tactic.numbers[1], 1), out_w = params.out_w;
  params.count = static_cast<int>(y.dims.elements() / tactic.numbers[0] / out_w * ceil_div(out_w, strip));
  return simple_step<1>(device, tactic, tactic.numbers[1] ? "pool_strip" : "pool", params, grid_for(params.count));
}

const KernelRegistrar registered({"MaxPool", "AveragePool"}, {"", "pool", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::pool
