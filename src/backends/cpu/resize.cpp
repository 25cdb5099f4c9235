// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/kernel.h"

namespace tenon::cpu::resize {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Nearest upsampling of channels-last images by whole factors: pixels are repeated.
class RepeatStep : public backends::Step {
 public:
  explicit RepeatStep(const Problem& problem)
      : x_(problem.inputs[0].dims),
        xs_(problem.inputs[0].strides),
        y_(problem.outputs[0].dims),
        ys_(problem.outputs[0].strides),
        bytes_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const int64_t factor_h = y_[1] / x_[1], factor_w = y_[2] / x_[2];
    int64_t begin, end;
    worker.share(y_[0] * y_[1], begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const std::byte* src = inputs[0] + (row / y_[1] * xs_[0] + row % y_[1] / factor_h * xs_[1]) * bytes_;
      std::byte* dst = outputs[0] + (row / y_[1] * ys_[0] + row % y_[1] * ys_[1]) * bytes_;
      for (int64_t column = 0; column < y_[2]; ++column)
        std::memcpy(dst + column * ys_[2] * bytes_, src + column / factor_w * xs_[2] * bytes_,
                    static_cast<size_t>(y_[3] * bytes_));
    }
  }

 private:
  Dims x_, xs_, y_, ys_;
  int64_t bytes_;  // of an element
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const ir::Node& node = *problem.node;
  if (x.dtype != DType::f32 && x.dtype != DType::u8) return {Reason::element_type, "elements", "f32 or u8"};
  if (node.text("mode", "nearest") != "nearest") return {Reason::attribute, "mode", "nearest"};
  if (x.dims.rank() != 4 || x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3]) return {Reason::layout, "NHWC"};
  if (x.dims.elements() == 0 || y.dims[1] % x.dims[1] || y.dims[2] % x.dims[2])
    return {Reason::not_multiple, "the output's sizes", "the input's"};
  const std::string transform = node.text("coordinate_transformation_mode", "half_pixel"),
                    rounding = node.text("nearest_mode", "round_prefer_floor");
  // Repetition is what these two give for whole factors.
  const bool repeats =
      (transform == "asymmetric" && rounding == "floor") ||
      ((transform == "half_pixel" || transform == "pytorch_half_pixel") && rounding.rfind("round_prefer", 0) == 0);
  if (!repeats) return {Reason::attribute, "coordinates", "rounded to repeat each pixel"};
  return x.rows_contiguous() && y.rows_contiguous() ? Reason() : Reason(Reason::not_contiguous, "channels");
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<RepeatStep>(problem); }

const backends::KernelRegistrar registered({"Resize", "repeat", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::resize
