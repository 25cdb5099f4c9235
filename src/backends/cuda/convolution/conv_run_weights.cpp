// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/conv_run_weights_params.h"
#include "backends/cuda/convolution/convolution.h"

/// Convolutions by weights that the network computes, as a tracker's of what it looks for: no form is packed.
namespace tenon::cuda::conv_run_weights {
namespace {

using Params = ConvRunWeightsParams;

bool has_bias(const Problem& problem) { return problem.inputs.size() > 2 && problem.inputs[2]; }

/// The geometry of the convolution, whose bias may be computed, too.
Reason geometry_of(const Problem& problem, ConvShape& shape) {
  Problem bare = problem;
  if (has_bias(problem)) bare.inputs[2] = {};
  return conv_geometry(bare, shape);
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (w.constant) return Reason::other_kernel;
  if (!is_real(x.dtype) || !is_real(w.dtype) || !is_real(y.dtype))
    return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (has_bias(problem) && (!is_real(problem.inputs[2].dtype) || !problem.inputs[2].dense()))
    return {Reason::element_type, "the bias", "f32, f16 or bf16"};
  if (has_residual(problem) && problem.inputs[3].dtype != y.dtype)
    return {Reason::element_type, "the residual", "the result's type"};
  ConvShape shape{};
  return geometry_of(problem, shape);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  Source source{"conv_run_weights.cu", epilogue_defines(conv_epilogue(problem)), ""};
  for (const std::string& word : {define_type("TX", x.dtype), define_type("TW", w.dtype), define_type("TY", y.dtype),
                                  define_type("TB", has_bias(problem) ? problem.inputs[2].dtype : DType::f32),
                                  define("BIAS", has_bias(problem)), define("KH", w.dims[2]), define("KW", w.dims[3])})
    source.defines.push_back(word);
  return {{"run weights", {source}, {}}};
}

class RunWeightsStep : public Step {
 public:
  RunWeightsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "conv_run_weights")),
        bias_(has_bias(problem)),
        residual_(has_residual(problem)) {
    ConvShape shape{};
    geometry_of(problem, shape);
    const ops::Epilogue epilogue = conv_epilogue(problem);
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    for (int at = 0; at < 4; ++at) {
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
      params_.ws[at] = problem.inputs[1].strides[static_cast<size_t>(at)];
    }
    params_.count = problem.outputs[0].dims.elements();
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w), params_.out_c = size(shape.out_c);
    params_.c_in = size(shape.channels_in()), params_.c_out = size(shape.channels_out());
    params_.stride_h = shape.stride_h, params_.stride_w = shape.stride_w;
    params_.dilation_h = shape.dilation_h, params_.dilation_w = shape.dilation_w;
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.w = at.inputs[1], params.y = at.outputs[0];
    params.bias = bias_ ? at.inputs[2] : 0, params.residual = residual_ ? at.inputs[3] : 0;
    launch(device_, function_, {ceil_div(params.count, 128), 1, 1, 128, 0}, at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool bias_, residual_;
  Params params_{};
};

const KernelRegistrar registered({"Conv", "run weights", 0, refuses, tactics, make_step<RunWeightsStep>});

}  // namespace
}  // namespace tenon::cuda::conv_run_weights
