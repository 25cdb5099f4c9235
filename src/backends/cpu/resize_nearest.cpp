// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"
#include "backends/resize_axes.h"

namespace tenon::cpu::resize_nearest {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;
namespace resizing = ops::resizing;

/// Nearest elements of any size but f32, whose taps are weighted, in any layout: bytes of quantised images that lie
/// channels first, for example.
class NearestStep : public backends::Step {
 public:
  explicit NearestStep(const Problem& problem) : chunk_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))) {
    std::vector<resizing::Axis> axes = backends::resize_axes(problem);
    // What lies together stays together behind the last axis that changes.
    for (; axes.size() > 1 && axes.back().in == axes.back().out && axes.back().scale == 1; axes.pop_back())
      chunk_ *= axes.back().in;
    int64_t pitch = 1;  // of an axis of x, in chunks
    for (size_t at = axes.size(); at-- > 0; pitch *= axes[at].in) {
      std::vector<int64_t> offsets;
      for (const resizing::Taps& taps : resizing::taps_of(*problem.node, axes[at]))
        offsets.push_back(taps.index[0] * pitch);
      offsets_.insert(offsets_.begin(), std::move(offsets));
    }
    for (size_t at = 0; at + 1 < offsets_.size(); ++at) rows_ *= std::ssize(offsets_[at]);
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(rows_, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      int64_t from = 0, rest = row;
      for (size_t at = offsets_.size() - 1; at-- > 0; rest /= std::ssize(offsets_[at]))
        from += offsets_[at][static_cast<size_t>(rest % std::ssize(offsets_[at]))];
      const auto length = std::ssize(offsets_.back());
      line(inputs[0] + from * chunk_, outputs[0] + row * length * chunk_);
    }
  }

 private:
  void line(const std::byte* x, std::byte* y) const {
    if (chunk_ == 1) {  // a call for each would take longer
      for (const int64_t offset : offsets_.back()) *y++ = x[offset];
      return;
    }
    for (const int64_t offset : offsets_.back()) {
      std::memcpy(y, x + offset * chunk_, static_cast<size_t>(chunk_));
      y += chunk_;
    }
  }

  int64_t chunk_, rows_ = 1;                   // bytes; of the output
  std::vector<std::vector<int64_t>> offsets_;  // of each axis, in chunks of x
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype == DType::f32) return Reason::other_kernel;
  if (problem.node->text("mode", "nearest") != "nearest") return {Reason::attribute, "mode", "nearest"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  if (x.dims.rank() == 0) return {Reason::form, "an axis"};
  if (problem.node->text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return {Reason::attribute, "coordinate_transformation_mode", "another than tf_crop_and_resize"};
  for (size_t at : {size_t{2}, size_t{3}})
    if (at < problem.inputs.size() && problem.inputs[at] && !problem.inputs[at].constant)
      return {Reason::not_constant, "its scales"};
  if (problem.inputs.size() > 3 && problem.inputs[3] && problem.inputs[3].dtype != DType::i64)
    return {Reason::element_type, "its sizes", "i64"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<NearestStep>(problem); }

const backends::KernelRegistrar registered({"Resize", "nearest", 0, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::resize_nearest
