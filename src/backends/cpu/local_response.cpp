// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"

namespace tenon::cpu::local_response {
namespace {

using backends::Problem;
using backends::Reason;

constexpr int64_t at_once = 256, most_size = 64;  // elements in registers and the first cache; channels of a window

/// x / (bias + alpha / size * the sum of squares of neighbouring channels)^beta.
class LrnStep : public backends::Step {
 public:
  explicit LrnStep(const Problem& problem) {
    const ir::Node& node = *problem.node;
    const Dims& dims = problem.inputs[0].dims;
    last_ = node.text("layout", "") == "NHWC";
    channels_ = last_ ? dims.back() : dims[1];
    pixels_ = dims.elements() / dims[0] / channels_, images_ = dims[0];
    size_ = node.integer("size", 1);
    before_ = (size_ - 1) / 2, after_ = size_ - 1 - before_;
    alpha_ = node.real("alpha", 1e-4f) / static_cast<float>(size_);
    beta_ = node.real("beta", 0.75f), bias_ = node.real("bias", 1.f);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    if (last_) {
      worker.share(images_ * pixels_, begin, end);
      for (int64_t at = begin; at < end; ++at) pixel(x + at * channels_, y + at * channels_);
    } else {
      const int64_t pieces = (pixels_ + at_once - 1) / at_once;
      worker.share(images_ * pieces, begin, end);
      for (int64_t at = begin; at < end; ++at) {
        const int64_t first = at % pieces * at_once, from = at / pieces * channels_ * pixels_ + first;
        planes(x + from, y + from, std::min(at_once, pixels_ - first));
      }
    }
  }

 private:
  /// All channels of pixels side by side.
  void planes(const float* x, float* y, int64_t count) const {
    float sums[at_once];
    for (int64_t c = 0; c < channels_; ++c) {
      std::fill_n(sums, count, 0.f);
      for (int64_t k = std::max<int64_t>(0, c - before_); k <= std::min(channels_ - 1, c + after_); ++k)
        for (int64_t i = 0; i < count; ++i) sums[i] += x[k * pixels_ + i] * x[k * pixels_ + i];
      scale(x + c * pixels_, y + c * pixels_, sums, count);
    }
  }
  /// The channels of one, side by side.
  void pixel(const float* x, float* y) const {
    float squares[at_once + most_size], sums[at_once];
    for (int64_t first = 0; first < channels_; first += at_once) {
      const int64_t count = std::min(at_once, channels_ - first);
      for (int64_t i = 0; i < count + size_ - 1; ++i) {
        const int64_t c = first + i - before_;
        squares[i] = c < 0 || c >= channels_ ? 0.f : x[c] * x[c];
      }
      std::fill_n(sums, count, 0.f);
      for (int64_t k = 0; k < size_; ++k)
        for (int64_t i = 0; i < count; ++i) sums[i] += squares[i + k];
      scale(x + first, y + first, sums, count);
    }
  }
  void scale(const float* x, float* y, const float* sums, int64_t count) const {
    if (beta_ == 0.75f) {
      for (int64_t i = 0; i < count; ++i) {
        const float root = std::sqrt(bias_ + alpha_ * sums[i]);
        y[i] = x[i] / (root * std::sqrt(root));
      }
    } else if (beta_ == 0.5f) {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] / std::sqrt(bias_ + alpha_ * sums[i]);
    } else if (beta_ == 1) {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] / (bias_ + alpha_ * sums[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] / std::pow(bias_ + alpha_ * sums[i], beta_);
    }
  }

  bool last_;
  int64_t channels_, pixels_, images_, size_, before_, after_;
  float alpha_, beta_, bias_;
};

Reason refuses(const Problem& problem) {
  const backends::Operand& x = problem.inputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() < 2 || x.dims.elements() == 0) return Reason::empty;
  if (problem.node->integer("size", 1) > most_size) return {Reason::too_many, most_size, "channels"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<LrnStep>(problem); }

const backends::KernelRegistrar registered({"LRN", "windows", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::local_response
