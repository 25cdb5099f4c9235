// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/support.h"
#include "ops/epilogue.h"
#include "ops/phase_axis.h"

namespace tenon::cpu::conv_transpose_phases {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

using Axis = ops::PhaseAxis;

struct Geometry {
  Axis axes[2];
  int64_t groups;
  Reason reason;

  explicit Geometry(const Problem& problem) {
    const ir::Node& node = *problem.node;
    const Dims &x = problem.inputs[0].dims, &w = problem.inputs[1].dims, &y = problem.outputs[0].dims;
    const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1});
    auto pads = node.integers("pads", {0, 0, 0, 0});
    const auto extra = node.integers("output_padding", {0, 0});
    const std::string mode = node.text("auto_pad", "NOTSET");
    if (mode == "VALID") pads = {0, 0, 0, 0};
    if (dilations != std::vector<int64_t>{1, 1}) reason = Reason::dilated;
    groups = node.integer("group", 1);
    const bool derived = node.has("output_shape") || mode.rfind("SAME", 0) == 0;
    for (size_t at = 0; at < 2; ++at) {
      Axis& axis = axes[at] = {strides[at], pads[at], w[at + 2], x[at + 1], y[at + 1]};
      if (!derived) continue;
      const int64_t full = (axis.in - 1) * axis.stride + extra[at] + axis.kernel;
      const int64_t total = std::max<int64_t>(0, full - axis.out);
      axis.begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  }
};

/// Results of one phase of the rows and some phases of the columns, as a convolution whose results lie apart.
struct Part {
  ConvShape shape{};
  Tensor weights;  // [results][channels of a group][window rows][window columns]
  int64_t to, residual;     // where the first result goes
  bool adds_zeros = false;  // beside the given weights
};

int64_t residual_pitch(const Problem& problem, size_t axis) {
  return problem.inputs.size() > 3 && problem.inputs[3] ? problem.inputs[3].strides[axis] : 0;
}

/// Phase r of the rows and phases s to s + columns of the columns, which lie beside each other.
Part part_of(const Problem& problem, const Geometry& g, int64_t r, int64_t s, int64_t columns) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const Tensor& w = problem.inputs[1].constant;
  const auto& [down, across] = g.axes;
  const int64_t channels = x.dims[3], results = w.dims()[1], inner = channels / g.groups;
  const int64_t top = down.first(r), rows = std::max<int64_t>(1, down.last(r) - top + 1);
  int64_t left = across.first(s), right = across.last(s);
  for (int64_t k = s + 1; k < s + columns; ++k)
    left = std::min(left, across.first(k)), right = std::max(right, across.last(k));
  const int64_t wide = std::max<int64_t>(1, right - left + 1), each = results * columns;
  Part part;
  ConvShape& shape = part.shape;
  shape.batch = x.dims[0], shape.in_h = down.in, shape.in_w = across.in, shape.in_c = channels;
  shape.out_h = down.steps(r), shape.out_w = across.steps(s), shape.out_c = each * g.groups;
  shape.kernel_h = static_cast<int>(rows), shape.kernel_w = static_cast<int>(wide);
  shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
  shape.pad_top = static_cast<int>(-top), shape.pad_left = static_cast<int>(-left);
  shape.groups = static_cast<int>(g.groups);
  shape.in_image = x.strides[0], shape.in_row = x.strides[1], shape.in_pixel = x.strides[2];
  shape.out_image = y.strides[0], shape.out_row = y.strides[1] * down.stride;
  shape.out_pixel = y.strides[2] * across.stride;
  shape.res_image = residual_pitch(problem, 0), shape.res_row = residual_pitch(problem, 1) * down.stride;
  shape.res_pixel = residual_pitch(problem, 2) * across.stride;
  part.to = r * y.strides[1] + s * y.strides[2];
  part.residual = r * residual_pitch(problem, 1) + s * residual_pitch(problem, 2);
  part.weights = Tensor(DType::f32, {g.groups * each, inner, rows, wide});
  float* to = part.weights.data<float>();
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t m = 0; m < results; ++m)
        for (int64_t c = 0; c < inner; ++c)
          for (int64_t h = 0; h < rows; ++h)
            for (int64_t v = 0; v < wide; ++v, ++to) {
              const int64_t row = down.tap(r, top + h), column = across.tap(s + k, left + v);
              const bool has = row >= 0 && row < down.kernel && column >= 0 && column < across.kernel;
              part.adds_zeros |= !has;
              *to = has ? w.data<float>()[(((group * inner + c) * results + m) * down.kernel + row) * across.kernel +
                                          column]
                        : 0.f;
            }
  return part;
}

const ConvTactic* tactic_of(const Problem& problem, const char* name) {
  for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
    if (!std::strcmp(tactic.name, name)) return &tactic;
  return nullptr;
}

/// Depthwise where that takes it: it reads no pixels before the image's first.
const ConvTactic* tactic_for(const Problem& problem, const ConvShape& shape) {
  const ConvTactic* depthwise = tactic_of(problem, "depthwise");
  if (depthwise && shape.pad_top >= 0 && shape.pad_left >= 0 && !depthwise->refuses(shape, {})) return depthwise;
  return tactic_of(problem, "direct");
}

/// Results from the weights as they were given: an infinity that meets the zeros between the taps of a row's phases
/// makes numbers of other phases none.
class GivenSums {
 public:
  GivenSums(const Problem& problem, const Geometry& geometry)
      : x_(problem.inputs[0]),
        y_(problem.outputs[0]),
        weights_(problem.inputs[1].constant),
        bias_(problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant : Tensor()),
        down_(geometry.axes[0]),
        across_(geometry.axes[1]),
        epilogue_(ops::epilogue_of(*problem.node)),
        loops_(&loops(isa_for(problem))) {
    if (epilogue_.residual != ops::Residual::none) residual_ = problem.inputs[3];
  }

  /// Whether a worker's rows of x are all finite.
  bool is_finite(const float* x, const Worker& worker) const {
    int64_t begin, end;
    worker.share(x_.dims[0] * x_.dims[1], begin, end);
    for (int64_t line = begin; line < end; ++line) {
      const float* row = x + line / x_.dims[1] * x_.strides[0] + line % x_.dims[1] * x_.strides[1];
      float low, high;
      loops_->ends(row, x_.strides[2] * (x_.dims[2] - 1) + x_.dims[3], &low, &high);
      if (!std::isfinite(low) || !std::isfinite(high)) return false;
    }
    return true;
  }

  /// Those of a worker's rows that are no numbers or infinite, once more.
  void mend(const float* x, const float* residual, float* y, const Worker& worker) const {
    int64_t begin, end;
    worker.share(y_.dims[0] * y_.dims[1], begin, end);
    const int64_t count = y_.dims[2] * y_.dims[3];
    for (int64_t line = begin; line < end; ++line) {
      const int64_t image = line / y_.dims[1], row = line % y_.dims[1];
      float* to = y + image * y_.strides[0] + row * y_.strides[1];
      const float* more = residual ? residual + image * residual_.strides[0] + row * residual_.strides[1] : nullptr;
      for (int64_t at = 0; at < count; ++at) {
        if (std::isfinite(to[at])) continue;
        const int64_t channel = at % y_.dims[3];
        to[at] = sum(x + image * x_.strides[0], row, at / y_.dims[3], channel);
        ops::apply(epilogue_, to[at], more ? more[at] : 0.f, channel);
      }
    }
  }

 private:
  float sum(const float* x, int64_t row, int64_t column, int64_t channel) const {
    float sum = bias_ ? bias_.data<float>()[channel] : 0.f;
    const int64_t r = row % down_.stride, s = column % across_.stride;
    for (int64_t h = down_.first(r); h <= down_.last(r); ++h)
      for (int64_t w = across_.first(s); w <= across_.last(s); ++w) {
        const int64_t from_row = row / down_.stride + h, from_column = column / across_.stride + w;
        if (from_row < 0 || from_row >= down_.in || from_column < 0 || from_column >= across_.in) continue;
        const float* pixel = x + from_row * x_.strides[1] + from_column * x_.strides[2];
        const int64_t tap = down_.tap(r, h) * across_.kernel + across_.tap(s, w), taps = down_.kernel * across_.kernel;
        for (int64_t c = 0; c < x_.dims[3]; ++c)
          sum += pixel[c] * weights_.data<float>()[(c * y_.dims[3] + channel) * taps + tap];
      }
    return sum;
  }

  Operand x_, y_, residual_;
  Tensor weights_, bias_;
  Axis down_, across_;
  ops::Epilogue epilogue_;
  const Loops* loops_;
};

struct Phase {
  Tensor packed;
  std::unique_ptr<ConvKernel> kernel;
  int64_t to, residual;
  size_t workspace;
};

/// A transposed convolution as one convolution for each phase of its results, which are written where they belong.
/// `kRows`: all phases of a row are one, as channels of more results; taps that a phase has not are zeros.
template <bool kRows>
class PhasesStep : public backends::Step {
 public:
  explicit PhasesStep(const Problem& problem) {
    const Geometry g(problem);
    Epilogue epilogue = epilogue_of(*problem.node);
    residual_ = epilogue.residual != Residual::none;
    threads_ = std::max(problem.threads, 1);
    const int64_t results = problem.outputs[0].dims[3], columns = kRows ? g.axes[1].stride : 1;
    const float* bias =
        problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
    const std::vector<float> wide = repeated(bias, results, columns),
                             wide_slopes = repeated(epilogue.slopes, results, columns);
    if (epilogue.slopes) epilogue.slopes = wide_slopes.data();
    for (int64_t r = 0; r < g.axes[0].stride; ++r)
      for (int64_t s = 0; s < g.axes[1].stride; s += columns) {
        const Part part = part_of(problem, g, r, s, columns);
        if (kRows && !given_ && part.adds_zeros) given_.emplace(problem, g);
        if (part.shape.out_h == 0 || part.shape.out_w == 0) continue;
        const ConvTactic& tactic = *tactic_for(problem, part.shape);
        Phase phase{Tensor(DType::f32, {static_cast<int64_t>(tactic.packed_floats(part.shape))}), nullptr, part.to,
                    part.residual, bytes_};
        tactic.pack(part.shape, part.weights.data<float>(), phase.packed.data<float>());
        phase.kernel = tactic.make(part.shape, epilogue, phase.packed.data<float>(), bias ? wide.data() : nullptr,
                                   problem.threads);
        bytes_ += set_apart(phase.kernel->workspace_bytes());
        phases_.push_back(std::move(phase));
      }
  }
  size_t workspace_bytes() const override { return bytes_ + (given_ ? set_apart(static_cast<size_t>(threads_)) : 0); }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const Phase& phase : phases_) bytes += phase.packed.bytes();
    return bytes;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* finite = reinterpret_cast<bool*>(worker.workspace + bytes_);  // of each worker: its rows
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    if (given_) finite[worker.id] = given_->is_finite(x, worker);
    for (const Phase& phase : phases_) {
      Worker own = worker;
      own.workspace = worker.workspace + phase.workspace;
      phase.kernel->run(x, residual_ ? reinterpret_cast<const float*>(inputs[3]) + phase.residual : nullptr,
                        reinterpret_cast<float*>(outputs[0]) + phase.to, own);
    }
    if (!given_) return;
    worker.sync();
    if (std::all_of(finite, finite + worker.count, [](bool is) { return is; })) return;
    given_->mend(x, residual_ ? reinterpret_cast<const float*>(inputs[3]) : nullptr,
                 reinterpret_cast<float*>(outputs[0]), worker);
  }

 private:
  std::vector<Phase> phases_;
  std::optional<GivenSums> given_;
  size_t bytes_ = 0;
  int threads_;
  bool residual_;
};

template <bool kRows>
Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (!w.constant || (problem.inputs.size() > 2 && problem.inputs[2] && !problem.inputs[2].constant))
    return {Reason::not_constant, "the weights"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0 || w.dims.elements() == 0) return Reason::empty;
  if (!x.rows_contiguous() || !y.rows_contiguous()) return {Reason::not_contiguous, "channels"};
  const bool residual = problem.inputs.size() > 3 && problem.inputs[3];
  if (residual && !(problem.inputs[3].dims == y.dims && problem.inputs[3].rows_contiguous()))
    return {Reason::view, "the residual"};
  const Geometry g(problem);
  if (g.reason) return g.reason;
  constexpr int64_t most_phases = 64;
  if (g.axes[0].stride * g.axes[1].stride > most_phases) return {Reason::too_many, most_phases, "phases"};
  const int64_t columns = g.axes[1].stride;
  if (kRows && columns == 1) return {Reason::strides, "2 or more in a row"};
  if (kRows && g.groups != 1) return Reason::grouped;
  if (kRows && y.dims[2] % columns) return {Reason::not_multiple, "columns", columns};
  if (kRows && (y.strides[2] != y.dims[3] || (residual && problem.inputs[3].strides[2] != y.dims[3])))
    return {Reason::gaps, "pixels"};
  return tactic_of(problem, "direct") ? Reason() : Reason(Reason::instruction_set);
}
template <bool kRows>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<PhasesStep<kRows>>(problem);
}

const backends::KernelRegistrar phases({"ConvTranspose", "phases", 3, refuses<false>, make<false>, "direct depthwise"});
const backends::KernelRegistrar row_phases({"ConvTranspose", "row_phases", 2, refuses<true>, make<true>, "direct"});

}  // namespace
}  // namespace tenon::cpu::conv_transpose_phases
