#include <cstring>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/conv_int8.h"

namespace tenon::cpu {
namespace {

using backends::Problem;

// Inputs behind those of Conv.
enum : size_t { x_scale = 4, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }
float scale_at(const Problem& problem, size_t at) {
  return has(problem, at) ? *problem.inputs[at].constant.data<float>() : 0;
}
int32_t zero_at(const Problem& problem, size_t at) {
  return has(problem, at) ? *problem.inputs[at].constant.data<uint8_t>() : 0;
}

/// The problem as its kernels take it, with the list of multipliers it points into; the reason when it is none.
const char* conv_of(const Problem& problem, Int8Conv& conv, std::vector<float>& multiplier) {
  const auto epilogue = epilogue_of(*problem.node);
  const DType from = problem.inputs[0].dtype, to = problem.outputs[0].dtype;
  if (from != DType::u8 || (to != DType::u8 && to != DType::f32) || problem.node->has("input_layout"))
    return "only bytes, channels last";
  if (!epilogue) return "the activation has no kernel";
  for (size_t at = x_scale; at < problem.inputs.size(); ++at)
    if (has(problem, at) && !problem.inputs[at].constant) return "a scale or zero point is not constant";
  if (const char* reason = conv_shape_of(problem, conv.shape)) return reason;
  const Tensor& scales = problem.inputs[w_scale].constant;
  const double factor = scale_at(problem, x_scale);
  for (int64_t channel = 0; channel < conv.shape.out_c; ++channel)
    multiplier.push_back(
        static_cast<float>(factor * scales.data<float>()[scales.elements() == 1 ? 0 : channel]));
  conv.epilogue = *epilogue;
  conv.weights = problem.inputs[1].constant.data<int8_t>();
  conv.multiplier = multiplier.data();
  conv.bias = has(problem, 2) ? problem.inputs[2].constant.data<float>() : nullptr;
  conv.in_zero = zero_at(problem, x_zero);
  conv.residual_scale = scale_at(problem, r_scale);
  conv.residual_zero = zero_at(problem, r_zero);
  conv.inverse_scale = has(problem, y_scale) ? 1.f / scale_at(problem, y_scale) : 0;
  conv.out_zero = zero_at(problem, y_zero);
  return nullptr;
}

class Int8ConvStep : public backends::Step {
 public:
  Int8ConvStep(std::unique_ptr<Int8Kernel> kernel, bool residual) : kernel_(std::move(kernel)), residual_(residual) {}
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return kernel_->packed_bytes(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    kernel_->run(reinterpret_cast<const uint8_t*>(inputs[0]),
                 residual_ ? reinterpret_cast<const uint8_t*>(inputs[3]) : nullptr, outputs[0], worker);
  }

 private:
  std::unique_ptr<Int8Kernel> kernel_;
  bool residual_;
};

// Where int8_tactics() lists the kernel that needs more than its instruction set.
constexpr size_t dot_at = 2;

template <size_t index>
const char* refuses(const Problem& problem) {
  if (index == dot_at && !has_byte_dot(active_isa())) return "the processor does not multiply four bytes at once";
  Int8Conv conv{};
  std::vector<float> multiplier;
  if (const char* reason = conv_of(problem, conv, multiplier)) return reason;
  return int8_tactics()[index].refuses(conv);
}

template <size_t index>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  Int8Conv conv{};
  std::vector<float> multiplier;
  conv_of(problem, conv, multiplier);
  return std::make_unique<Int8ConvStep>(int8_tactics()[index].make(conv, active_isa(), problem.threads),
                                        conv.epilogue.residual != Residual::none);
}

const backends::KernelRegistrar pairs({"Int8Conv", "int8_pairs", 2, refuses<0>, make<0>});
const backends::KernelRegistrar words({"Int8Conv", "int8_words", 1, refuses<1>, make<1>});
const backends::KernelRegistrar dot({"Int8Conv", "int8_dot", 4, refuses<dot_at>, make<dot_at>});
const backends::KernelRegistrar depthwise({"Int8Conv", "int8_depthwise", 3, refuses<3>, make<3>});
const backends::KernelRegistrar winograd({"Int8Conv", "int8_winograd", 3, refuses<4>, make<4>});

}  // namespace
}  // namespace tenon::cpu
