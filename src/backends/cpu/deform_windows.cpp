// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/kernel.h"

namespace tenon::cpu::deform_windows {
namespace {

using backends::Problem;
using backends::Reason;

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t groups;

  explicit Window(const ir::Node& node)
      : kernel(node.integers("kernel_shape", {1, 1})),
        strides(node.integers("strides", {1, 1})),
        dilations(node.integers("dilations", {1, 1})),
        pads(node.integers("pads", {0, 0, 0, 0})),
        groups(node.integer("offset_group", 1)) {}
  int64_t taps() const { return kernel[0] * kernel[1]; }
};

/// Channels of up to four pixels, weighted by how near they are to where a tap reads.
class DeformWindowsStep : public backends::Step {
 public:
  explicit DeformWindowsStep(const Problem& problem)
      : window_(*problem.node),
        in_(problem.inputs[0].dims),
        out_(problem.outputs[0].dims),
        size_(in_[3] / window_.groups),
        masked_(problem.inputs.size() > 2 && problem.inputs[2]),
        loops_(loops(isa_for(problem))) {}

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* offsets = reinterpret_cast<const float*>(inputs[1]);
    const auto* mask = masked_ ? reinterpret_cast<const float*>(inputs[2]) : nullptr;
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const int64_t taps = window_.taps(), entries = window_.groups * taps;
    int64_t begin, end;
    worker.share(out_[0] * out_[1] * out_[2], begin, end);
    for (int64_t place = begin; place < end; ++place) {
      const float* image = x + place / (out_[1] * out_[2]) * in_[1] * in_[2] * in_[3];
      const int64_t row = place / out_[2] % out_[1], column = place % out_[2];
      for (int64_t entry = 0; entry < entries; ++entry) {
        const int64_t group = entry / taps, tap = entry % taps;
        const float* at = offsets + 2 * (place * entries + entry);
        const int64_t top = row * window_.strides[0] - window_.pads[0] + tap / window_.kernel[1] * window_.dilations[0],
                      left = column * window_.strides[1] - window_.pads[1] +
                             tap % window_.kernel[1] * window_.dilations[1];
        sample(image + group * size_, static_cast<double>(top) + at[0], static_cast<double>(left) + at[1],
               mask ? mask[place * entries + entry] : 1, y + (place * taps + tap) * in_[3] + group * size_);
      }
    }
  }

 private:
  void sample(const float* image, double y, double x, double factor, float* to) const {
    int64_t offsets[4], count = 0;
    float weights[4];
    if (y > -1 && y < static_cast<double>(in_[1]) && x > -1 && x < static_cast<double>(in_[2])) {
      const double top = std::floor(y), left = std::floor(x), dy = y - top, dx = x - left;
      const auto row = static_cast<int64_t>(top), column = static_cast<int64_t>(left);
      const auto add = [&](int64_t r, int64_t c, double weight) {
        if (r < 0 || c < 0 || r >= in_[1] || c >= in_[2]) return;
        offsets[count] = (r * in_[2] + c) * in_[3], weights[count++] = static_cast<float>(weight * factor);
      };
      add(row, column, (1 - dy) * (1 - dx)), add(row, column + 1, (1 - dy) * dx);
      add(row + 1, column, dy * (1 - dx)), add(row + 1, column + 1, dy * dx);
    }
    if (count == 0) std::fill_n(to, size_, 0.f);
    else loops_.weighted(to, image, offsets, weights, count, size_);
  }

  Window window_;
  Dims in_, out_;
  int64_t size_;  // channels of a group
  bool masked_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  const Dims &x = problem.inputs[0].dims, &offsets = problem.inputs[1].dims, &y = problem.outputs[0].dims;
  const Window window(*problem.node);
  if (x.rank() != 4 || offsets.rank() != 4 || y.rank() != 4 || x.elements() == 0 || y.elements() == 0)
    return Reason::empty;
  // No product below overflows.
  if (window.groups > offsets[3] || window.taps() > offsets[3])
    return {Reason::shape, "offsets", "two for each tap of each group"};
  const int64_t entries = window.groups * window.taps();
  const bool fits = x[3] % window.groups == 0 && x[0] == y[0] && y[3] == window.taps() * x[3] &&
                    offsets == Dims{y[0], y[1], y[2], 2 * entries};
  if (!fits) return {Reason::shape, "offsets", "two for each tap of each group"};
  if (problem.inputs.size() > 2 && problem.inputs[2] && !(problem.inputs[2].dims == Dims{y[0], y[1], y[2], entries}))
    return {Reason::shape, "the mask", "an element for each tap of each group"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<DeformWindowsStep>(problem); }

const backends::KernelRegistrar registered({"tenon:DeformWindows", "pixels", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::deform_windows
