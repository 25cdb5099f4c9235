// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu::group_norm {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t each_part = 8192;                       // elements, which stay in the caches of a core
constexpr int64_t many_lines = 16;                        // whole groups that are enough for the threads
constexpr int64_t fewest_pixels = 32, most_pixels = 256;  // of a part whose channels are summed one by one
constexpr int64_t short_row = 256;                        // channels of pixels that are better scaled several at once

bool channels_last(const Problem& problem) {
  return problem.node->text("layout", "NCHW") == "NHWC" && problem.inputs[0].dims.rank() > 2;
}
int64_t channels_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  return dims[channels_last(problem) ? dims.rank() - 1 : 1];
}

/// InstanceNormalization, whose groups have one channel each, and GroupNormalization. A line is what lies in one piece
/// with its statistics: a group, or an image with its channels last. The parts of a line are measured one by one, and
/// each is normalised by what all of its line have in common.
class GroupStep : public backends::Step {
 public:
  explicit GroupStep(const Problem& problem)
      : last_(channels_last(problem)),
        channels_(channels_of(problem)),
        groups_(problem.node->integer("num_groups", channels_)),
        shared_(problem.inputs[1].dims.elements() != channels_),
        epsilon_(problem.node->real("epsilon", 1e-5f)),
        threads_(problem.threads),
        epilogue_(epilogue_of(*problem.node)),
        loops_(loops(isa_for(problem))),
        rows_(row_ops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    plane_ = dims.elements() / dims[0] / channels_;
    lines_ = last_ ? dims[0] : dims[0] * groups_;
    count_ = dims.elements() / lines_;
    group_ = channels_ / groups_;
    each_ = !last_ && lines_ >= many_lines ? count_ : each_part;
    if (last_ && groups_ == 1) each_ = std::max<int64_t>(1, each_part / channels_) * channels_;
    if (last_ && groups_ > 1) each_ = std::clamp(each_part / channels_, fewest_pixels, most_pixels) * channels_;
    parts_ = (count_ + each_ - 1) / each_;
    measured_ = last_ ? groups_ : 1;
    share_ = 1 / static_cast<double>(count_);
    repeats_ = last_ ? std::max<int64_t>(1, short_row / channels_) : 1;
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(lines_ * parts_ * measured_) * sizeof(Part) +
           static_cast<size_t>(threads_) * own_floats() * sizeof(float);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* parts = reinterpret_cast<Part*>(worker.workspace);
    auto* floats = reinterpret_cast<float*>(parts + lines_ * parts_ * measured_);
    const Run run{reinterpret_cast<const float*>(inputs[0]),
                  reinterpret_cast<const float*>(inputs[1]),
                  reinterpret_cast<const float*>(inputs[2]),
                  reinterpret_cast<float*>(outputs[0]),
                  parts,
                  floats + static_cast<size_t>(worker.id) * own_floats()};
    int64_t begin, end;
    if (lines_ >= 2 * worker.count) {  // each while it is in the caches
      worker.share(lines_, begin, end);
      for (int64_t line = begin; line < end; ++line) {
        measure(run, line, 0, parts_);
        finish(run, line, 0, parts_);
      }
      return;
    }
    worker.share(lines_ * parts_, begin, end);
    each_line(begin, end, [&](int64_t line, int64_t first, int64_t last) { measure(run, line, first, last); });
    worker.sync();
    each_line(begin, end, [&](int64_t line, int64_t first, int64_t last) { finish(run, line, first, last); });
  }

 private:
  /// Of one group in one part: the mean, and the sum of squares around it.
  struct Part {
    double mean, squares;
  };
  struct Run {
    const float *x, *scale, *bias;
    float* y;
    Part* parts;  // [line][part][group]
    float* own;   // of the worker: two lists of channels
  };

  size_t own_floats() const { return 2 * static_cast<size_t>(last_ ? channels_ * repeats_ : plane_ == 1 ? group_ : 1); }
  int64_t size_of(int64_t part) const { return std::min(each_, count_ - part * each_); }
  /// Calls with each line that has some of these parts of all lines, and which of its own they are.
  template <class Visit>
  void each_line(int64_t begin, int64_t end, Visit visit) const {
    for (int64_t line = begin / parts_; line * parts_ < end; ++line)
      visit(line, std::max<int64_t>(0, begin - line * parts_), std::min(parts_, end - line * parts_));
  }

  /// Parts [first, last) of a line.
  void measure(const Run& run, int64_t line, int64_t first, int64_t last) const {
    Part* parts = run.parts + line * parts_ * measured_;
    for (int64_t part = first; part < last; ++part) {
      const float* from = run.x + line * count_ + part * each_;
      const int64_t size = size_of(part);
      if (measured_ == 1) {
        const Moments moments = loops_.moments(from, size);
        parts[part] = {moments.mean, moments.variance * static_cast<double>(size)};
        continue;
      }
      float *means = run.own, *squares = run.own + channels_;
      const int64_t pixels = size / channels_;
      loops_.column_moments(means, squares, from, pixels, channels_);
      for (int64_t g = 0; g < groups_; ++g) {
        Part sum{0, 0};
        for (int64_t c = g * group_; c < (g + 1) * group_; ++c) sum.mean += means[c];
        sum.mean /= static_cast<double>(group_);
        for (int64_t c = g * group_; c < (g + 1) * group_; ++c)
          sum.squares += squares[c] + static_cast<double>(pixels) * (means[c] - sum.mean) * (means[c] - sum.mean);
        parts[part * groups_ + g] = sum;
      }
    }
  }
  /// The parts of group g of a line as one.
  Moments joined(const Run& run, int64_t line, int64_t g) const {
    const Part* parts = run.parts + line * parts_ * measured_ + g;
    if (parts_ == 1) return {parts->mean, parts->squares * static_cast<double>(measured_) * share_};
    Moments moments{0, 0};
    for (int64_t part = 0; part < parts_; ++part)
      moments.mean += parts[part * measured_].mean * (static_cast<double>(size_of(part)) * share_);
    for (int64_t part = 0; part < parts_; ++part) {
      const double away = parts[part * measured_].mean - moments.mean;
      moments.variance += parts[part * measured_].squares * static_cast<double>(measured_) * share_ +
                          away * away * (static_cast<double>(size_of(part)) * share_);
    }
    return moments;
  }
  void finish(const Run& run, int64_t line, int64_t first, int64_t last) const {
    if (first >= last) return;
    const int64_t from = first * each_, to = std::min(last * each_, count_);
    if (last_) finish_image(run, line, from, to);
    else finish_group(run, line, from, to);
  }
  /// `count` elements from `at` on, by lists of numbers or, with step 0, by one of each.
  void scale(const Run& run, int64_t at, int64_t count, const float* factors, const float* shifts, int step) const {
    loops_.affine(run.y + at, run.x + at, factors, shifts, step, count);
    if (epilogue_.act == expr::Id::Identity) return;
    rows_.unary(epilogue_.act, epilogue_.alpha, epilogue_.beta, run.y + at, run.y + at, count);
  }
  /// Elements [from, to) of an image.
  void finish_image(const Run& run, int64_t line, int64_t from, int64_t to) const {
    float *factors = run.own, *shifts = run.own + channels_ * repeats_;
    for (int64_t g = 0; g < groups_; ++g) {
      const Moments moments = joined(run, line, g);
      const double inverse = 1 / std::sqrt(moments.variance + epsilon_);
      for (int64_t c = g * group_; c < (g + 1) * group_; ++c) {
        const int64_t own = shared_ ? g : c;
        const double factor = run.scale[own] * inverse;
        factors[c] = static_cast<float>(factor);
        shifts[c] = static_cast<float>(run.bias[own] - moments.mean * factor);
      }
    }
    const int64_t width = channels_ * repeats_;
    for (int64_t at = channels_; at < width; ++at)
      factors[at] = factors[at - channels_], shifts[at] = shifts[at - channels_];
    const int64_t start = line * count_;
    for (int64_t at = from; at < to; at += width) scale(run, start + at, std::min(width, to - at), factors, shifts, 1);
  }
  /// Elements [from, to) of a group.
  void finish_group(const Run& run, int64_t line, int64_t from, int64_t to) const {
    const Moments moments = joined(run, line, 0);
    const double inverse = 1 / std::sqrt(moments.variance + epsilon_);
    const int64_t start = line * count_;
    const int64_t g = line % groups_;
    if (plane_ == 1) {
      float *factors = run.own, *shifts = run.own + group_;
      for (int64_t at = from; at < to; ++at) {
        const int64_t own = shared_ ? g : g * group_ + at;
        const double factor = run.scale[own] * inverse;
        factors[at] = static_cast<float>(factor);
        shifts[at] = static_cast<float>(run.bias[own] - moments.mean * factor);
      }
      return scale(run, start + from, to - from, factors + from, shifts + from, 1);
    }
    int64_t channel = from == 0 ? 0 : from / plane_;  // of the group; small planes are shorter than a division
    for (int64_t at = from; at < to; ++channel) {
      const int64_t own = shared_ ? g : g * group_ + channel, stop = std::min(to, (channel + 1) * plane_);
      const double factor = run.scale[own] * inverse;
      const auto by = static_cast<float>(factor), shift = static_cast<float>(run.bias[own] - moments.mean * factor);
      scale(run, start + at, stop - at, &by, &shift, 0);
      at = stop;
    }
  }

  bool last_;
  int64_t channels_, groups_;
  bool shared_;  // a scale for each group, not for each channel
  double epsilon_;
  int threads_;
  Epilogue epilogue_;
  const Loops& loops_;
  const RowOps& rows_;
  int64_t plane_, lines_, count_, group_;  // elements of a channel, of a line; channels of a group
  int64_t each_, parts_, measured_;        // elements of a part; parts and groups of a line
  double share_;                           // of an element in its line
  int64_t repeats_;                        // pixels that are scaled at once
};

Reason refuses(const Problem& problem) {
  for (const Operand& operand : problem.inputs)
    if (operand.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  const int64_t parameters = problem.inputs[1].dims.elements(), channels = channels_of(problem);
  const int64_t groups = problem.node->integer("num_groups", channels);
  if (groups < 1 || channels % groups) return {Reason::shape, "the channels", "whole groups"};
  if ((parameters != channels && parameters != groups) || problem.inputs[2].dims.elements() != parameters)
    return {Reason::shape, "scale and bias", "an entry for each channel or group"};
  return problem.inputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GroupStep>(problem); }

const backends::KernelRegistrar instance({"InstanceNormalization", "groups", 1, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar group({"GroupNormalization", "groups", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::group_norm
