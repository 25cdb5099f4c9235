// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/conv_wgmma.h"
#include "backends/cuda/matmul/weight_expand_params.h"
#include "ops/weight_only.h"

/// Products of many rows by weights of few bits, such as a prompt's: weights become 16-bit floats in the workspace, and
/// a kernel for those multiplies.
namespace tenon::cuda::weight_expand {
namespace {

using Params = WeightExpandParams;
namespace slots = ops::weight_only;

constexpr int64_t least_rows = 128, each = 4;  // each: eights of a thread
constexpr const char* pipelined = "pipelined";

bool has(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

int64_t block_of(const Problem& problem) { return problem.node->integer("block", 32); }
int64_t bits_of(const Problem& problem) { return problem.node->integer("bits", 4); }

Reason refuses_form(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return {Reason::capability, "mma.sync", "8.0"};
  const Operand &x = problem.inputs[slots::data], &scales = problem.inputs[slots::scales], &y = problem.outputs[0];
  if (!is_16_bit(x.dtype)) return {Reason::element_type, "data", "f16 or bf16"};
  if (y.dtype != x.dtype && y.dtype != DType::f32) return {Reason::element_type, "results", "the data's type or f32"};
  if (has(problem, slots::residual) && problem.inputs[slots::residual].dtype != y.dtype)
    return {Reason::element_type, "the residual", "the result's type"};
  for (const size_t input : {slots::weights, slots::scales, slots::zero_points})
    if (has(problem, input) && !problem.inputs[input].constant) return {Reason::not_constant, "weights and scales"};
  if (has(problem, slots::bias) && !problem.inputs[slots::bias].constant) return {Reason::not_constant, "the bias"};
  if (scales.dtype != DType::f32 && scales.dtype != DType::f16) return {Reason::element_type, "scales", "f32 or f16"};
  const int64_t k = problem.node->integer("k", 1);
  if (k % 8 || block_of(problem) % 8) return {Reason::not_multiple, "rows and blocks", "8 weights"};
  const int64_t rows = x.dims.elements() / std::max<int64_t>(k, 1);
  if (rows < least_rows) return {Reason::too_few, least_rows, "rows"};
  return problem.inputs[slots::weights].dims[0] >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

/// The product as a convolution of 1x1 whose pixels are rows.
Reason shape_of(const Problem& problem, ConvShape& shape) {
  const Operand &x = problem.inputs[slots::data], &y = problem.outputs[0];
  if (!x.dense() || !y.dense() || (has(problem, slots::residual) && !problem.inputs[slots::residual].dense()))
    return {Reason::not_contiguous, "rows"};
  shape = {};
  shape.batch = shape.in_h = shape.out_h = shape.groups = 1;
  shape.in_c = x.dims.back(), shape.out_c = y.dims.back();
  shape.in_w = shape.out_w = x.dims.elements() / shape.in_c;
  shape.kernel_h = shape.kernel_w = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
  const auto rows = [&](int64_t(&strides)[4], int64_t width) {
    strides[0] = strides[1] = shape.in_w * width, strides[2] = width, strides[3] = 1;
  };
  rows(shape.x, shape.in_c), rows(shape.y, shape.out_c);
  if (has(problem, slots::residual)) rows(shape.residual, shape.out_c);
  shape.x_type = x.dtype, shape.y_type = y.dtype;
  return {};
}

/// The product of two values that is left, for as long as it lives.
class Product {
 public:
  explicit Product(const Problem& problem) : node_(*problem.node), problem_(problem) {
    node_.op = ir::OpId("MatMul");
    problem_.node = &node_;
    problem_.inputs.resize(std::min<size_t>(problem.inputs.size(), slots::residual + 1));
    const int64_t k = problem.inputs[slots::data].dims.back(), n = problem.outputs[0].dims.back();
    Operand weights;
    weights.dtype = problem.inputs[slots::data].dtype;
    weights.dims = {k, n}, weights.strides = {1, k}, weights.aligned = true;
    problem_.inputs[slots::weights] = weights;
  }
  Product(const Product&) = delete;
  const Problem& problem() const { return problem_; }
  std::vector<Choice> choices(const Properties& properties) const {
    std::vector<Choice> list = cuda::choices(problem_, properties);
    std::erase_if(list, [](const Choice& choice) { return choice.kernel->name != pipelined; });
    return list;
  }

 private:
  ir::Node node_;
  Problem problem_;
};

/// On wgmma, else on mma.sync.
std::vector<Tactic> products_of(const Problem& problem, const Properties& properties, bool wgmma) {
  ConvShape shape{};
  std::vector<Tactic> list;
  if (wgmma) {
    if (!shape_of(problem, shape) && !conv_wgmma::refuses_shape(problem, shape, properties))
      list = conv_wgmma::tactics_of(problem, shape, properties);
    return list;
  }
  for (Choice& choice : Product(problem).choices(properties)) list.push_back(std::move(choice.tactic));
  return list;
}

/// Of a row's block.
int threads_of(const Problem& problem) {
  const int64_t wanted = ceil_div(problem.inputs[slots::data].dims.back(), 8 * each);
  return static_cast<int>(std::clamp<int64_t>(ceil_div(wanted, 32) * 32, 32, 256));
}

Source source_of(const Problem& problem) {
  Source source{"weight_expand.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[slots::data].dtype),
                    define_type("SCALE", problem.inputs[slots::scales].dtype),
                    define("BITS", bits_of(problem)),
                    define("BLOCK", block_of(problem)),
                    define("ZEROS", has(problem, slots::zero_points)),
                    define("THREADS", threads_of(problem)),
                    define("EACH", each)};
  return source;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  std::vector<Tactic> list;
  for (const bool wgmma : {true, false})
    for (Tactic& product : products_of(problem, properties, wgmma)) {
      std::vector<int> numbers{wgmma};
      numbers.insert(numbers.end(), product.numbers.begin(), product.numbers.end());
      list.push_back({"expanded, " + product.name, {source_of(problem), product.sources[0]}, std::move(numbers)});
    }
  return list;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (const Reason reason = refuses_form(problem, properties)) return reason;
  ConvShape shape{};
  const bool wgmma = !shape_of(problem, shape) && !conv_wgmma::refuses_shape(problem, shape, properties);
  return wgmma || !Product(problem).choices(properties).empty() ? Reason() : Reason(Reason::no_tile);
}

class ExpandStep : public Step {
 public:
  ExpandStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "weight_expand")),
        zeros_(has(problem, slots::zero_points)) {
    const bool wgmma = tactic.numbers[0] != 0;
    const Tactic product{tactic.name, {tactic.sources[1]}, {tactic.numbers.begin() + 1, tactic.numbers.end()}};
    const int64_t k = problem.inputs[slots::data].dims.back(), n = problem.outputs[0].dims.back();
    conv_wgmma::WeightRows rows{{}, k};
    if (wgmma) {
      ConvShape shape{};
      shape_of(problem, shape);
      product_ = conv_wgmma::make_for_run_weights(problem, shape, device, product);
      rows = conv_wgmma::weight_rows(shape, product);
    } else {
      const Product own(problem);
      product_ = own.choices(device.properties()).front().kernel->make(own.problem(), device, product);
      for (int64_t at = 0; at < n; ++at) rows.channels.push_back(at);
    }
    const std::vector<int> channels(rows.channels.begin(), rows.channels.end());
    channels_ = Buffer::kept(channels.size() * sizeof(int));
    channels_.upload(channels.data(), channels.size() * sizeof(int));
    params_.channels = channels_.address();
    params_.blocks = static_cast<int>(ceil_div(k, block_of(problem)));
    params_.row_bytes = params_.blocks * slots::block_bytes(block_of(problem), bits_of(problem));
    params_.n = static_cast<int>(n), params_.k = static_cast<int>(k), params_.depth = static_cast<int>(rows.depth);
    grid_ = {static_cast<int64_t>(channels.size()), 1, 1, threads_of(problem), 0};
    expanded_bytes_ = (channels.size() * static_cast<size_t>(rows.depth) * 2 + 255) / 256 * 256;
  }
  size_t workspace_bytes() const override { return expanded_bytes_ + product_->workspace_bytes(); }
  bool reads(size_t input) const override { return input != slots::bias || product_->reads(slots::bias); }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.weights = at.inputs[slots::weights], params.scales = at.inputs[slots::scales];
    if (zeros_) params.zeros = at.inputs[slots::zero_points];
    params.to = at.workspace;
    launch(device_, function_, grid_, at, params);
    Address inputs[slots::residual + 1] = {};
    for (size_t input = 0; input <= slots::residual; ++input) inputs[input] = at.inputs[input];
    inputs[slots::weights] = at.workspace;
    Launch inside = at;
    inside.inputs = inputs, inside.workspace = at.workspace + expanded_bytes_;
    const EventWait wait;  // weights may be read before the kernel in front has ended, as constants are
    product_->enqueue(inside);
  }

 private:
  Device& device_;
  Function function_;
  bool zeros_;
  std::unique_ptr<Step> product_;
  Buffer channels_;
  size_t expanded_bytes_ = 0;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"tenon:WeightOnlyMatMul", "expanded", 1, refuses, tactics, make_step<ExpandStep>});

}  // namespace
}  // namespace tenon::cuda::weight_expand
