// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/packing.h"

/// Convolutions of few output channels, which would leave most of a vector unused: several neighbouring pixels of a row
/// are computed as channels of one, whose window is as much wider and moves over as many.
namespace tenon::cpu::conv_pixels {
namespace {

using backends::Problem;
using backends::Reason;

constexpr const char* direct = "direct";
constexpr int64_t vector = 16;                  // floats of the widest one
constexpr int64_t widest_kernel = 1 << 16;      // columns
constexpr int64_t least_gain = 5, of_gain = 4;  // of products, to be worth it
constexpr int64_t most_single = 32;             // channels of single pixels
constexpr size_t line = 64;                     // bytes of the workspace that tell whether a value is not finite

/// A problem's convolution, and those that take its place: of all whole groups of pixels of a row, and of the last
/// group where it overlaps them.
struct Shapes {
  ConvShape plain, body, tail;
  int64_t count;  // pixels of a group
  bool has_tail;
  // Pixels are: groups are computed beside the output, from a copy of the residual, [image][row][column][channel].
  bool apart, residual_apart;
  int64_t tail_in, tail_res, tail_out;  // floats before what the tail reads and writes
};

ConvShape grouped(ConvShape s, int64_t count) {
  s.kernel_w += static_cast<int>((count - 1) * s.stride_w);
  s.stride_w *= static_cast<int>(count);
  s.out_w /= count, s.out_c *= count, s.out_pixel *= count, s.res_pixel *= count;
  return s;
}

Reason shapes_of(const ConvNode& node, const ConvOperands& operands, Shapes& shapes) {
  ConvShape& s = shapes.plain;
  if (const Reason reason = conv_shape_of(node, operands, s)) return reason;
  if (s.groups != 1) return Reason::grouped;
  if (s.dilation_w != 1) return Reason::dilated;
  if (s.in_nchw) {
    if (s.in_c != 1) return {Reason::layout, "NHWC"};
    s.in_nchw = false, s.in_pixel = 1, s.in_row = s.in_w, s.in_image = s.in_h * s.in_w;
  }
  if (s.slices > 1 && (s.in_image == 0 || s.in_slice % s.in_image != 0)) return {Reason::strides, "1 over frames"};
  if (s.in_pixel != s.in_c / s.slices) return {Reason::not_contiguous, "pixels of the input"};
  const int64_t count = shapes.count = std::min(vector / s.out_c, s.out_w);
  if (count < 2) return {Reason::too_many, vector / 2, "output channels"};
  if (s.kernel_w > widest_kernel) return Reason::too_large;
  // A wider window multiplies by zeros, too. Single pixels of few channels take as many products, but fewer stores.
  const bool single = s.kernel_w == 1 && s.kernel_h == 1 && s.stride_w == 1 && s.in_c <= most_single;
  if (s.stride_w < 1 ||
      (!single && of_gain * count * s.kernel_w < least_gain * (s.kernel_w + (count - 1) * s.stride_w)))
    return {Reason::window, "wider than its strides"};
  ConvShape dense = s;
  shapes.apart = s.out_pixel != s.out_c;
  if (shapes.apart)
    dense.out_pixel = s.out_c, dense.out_row = s.out_w * s.out_c, dense.out_image = s.out_h * dense.out_row;
  shapes.residual_apart = operands.residual && s.res_pixel != s.out_c;
  if (shapes.residual_apart)
    dense.res_pixel = s.out_c, dense.res_row = s.out_w * s.out_c, dense.res_image = s.out_h * dense.res_row;
  shapes.body = grouped(dense, count);
  shapes.has_tail = s.out_w % count != 0;
  if (!shapes.has_tail) return {};
  ConvShape last = dense;
  const int64_t first = s.out_w - count, skipped = first * s.stride_w - s.pad_left;
  if (skipped < 0) return {Reason::padding, "less"};
  last.out_w = count, last.in_w -= skipped, last.pad_left = 0;
  if (last.in_w < 1) return {Reason::padding, "less"};
  shapes.tail = grouped(last, count);
  shapes.tail_in = skipped * s.in_pixel, shapes.tail_out = first * dense.out_pixel,
  shapes.tail_res = first * dense.res_pixel;
  return {};
}

/// [pixel][output][input][row][column], each pixel's window where it lies in the group's.
Tensor grouped_weights(const Tensor& given, const Shapes& shapes) {
  const ConvShape &s = shapes.plain, &to = shapes.body;
  Tensor weights(DType::f32, {to.out_c, s.in_c, s.kernel_h, to.kernel_w});
  std::fill_n(weights.data<float>(), weights.elements(), 0.f);
  const int64_t rows = s.out_c * s.in_c * s.kernel_h;
  for (int64_t pixel = 0; pixel < shapes.count; ++pixel)
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(given.data<float>() + row * s.kernel_w, s.kernel_w,
                  weights.data<float>() + (pixel * rows + row) * to.kernel_w + pixel * s.stride_w);
  return weights;
}

class PixelsStep : public backends::Step {
  /// What no size changes.
  struct Fixed {
    const ConvTactic* tactic;
    ConvNode node;
    Packed packed, plain;
    Tensor weights;
    const Loops* loops;
  };

 public:
  PixelsStep(const Problem& problem, const ConvNode& node, const Shapes& shapes)
      : shapes_(shapes), residual_(node.epilogue.residual != Residual::none) {
    const ConvTactic& tactic = *conv_tactic_named(problem, direct);
    const auto given = [&] { return weights_f32(problem.inputs[1].constant); };
    fixed_ = std::make_shared<Fixed>(
        &tactic, node, packed_weights(problem, tactic, shapes.body, [&] { return grouped_weights(given(), shapes); }),
        packed_weights(problem, tactic, shapes.plain, given), problem.inputs[1].constant, &loops(isa_for(problem)));
    const bool has_bias = problem.inputs.size() > 2 && problem.inputs[2];
    const float* bias = has_bias ? problem.inputs[2].constant.data<float>() : nullptr;
    const std::vector<float> biases = repeated(bias, shapes.plain.out_c, shapes.count),
                             slopes = repeated(node.epilogue.slopes, shapes.plain.out_c, shapes.count);
    Epilogue wide = node.epilogue;
    if (wide.slopes) wide.slopes = slopes.data();
    volumes_ = volumes_of(node, conv_operands(problem));
    body_ =
        tactic.make(shapes.body, wide, floats_of(*fixed_->packed), has_bias ? biases.data() : nullptr, problem.threads);
    if (shapes.has_tail) tail_ = body_->resized(shapes.tail, problem.threads);
    plain_ = tactic.make(shapes.plain, node.epilogue, floats_of(*fixed_->plain), bias, problem.threads);
  }
  PixelsStep(const PixelsStep& other, const Shapes& shapes, const ConvVolumes& volumes, int threads)
      : fixed_(other.fixed_), shapes_(shapes), volumes_(volumes), residual_(other.residual_) {
    body_ = other.body_->resized(shapes.body, threads);
    if (shapes.has_tail) tail_ = other.body_->resized(shapes.tail, threads);
    plain_ = other.plain_->resized(shapes.plain, threads);
  }
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    Shapes shapes{};
    if (problem.inputs[1].constant.data() != fixed_->weights.data() ||
        shapes_of(fixed_->node, conv_operands(problem), shapes) ||
        !packs_alike(*fixed_->tactic, shapes.body, shapes_.body))
      return nullptr;
    return std::make_unique<PixelsStep>(*this, shapes, volumes_of(fixed_->node, conv_operands(problem)),
                                        problem.threads);
  }
  size_t workspace_bytes() const override {
    return inner_bytes() +
           static_cast<size_t>((shapes_.apart ? apart_floats() : 0) + (shapes_.residual_apart ? apart_floats() : 0)) *
               sizeof(float);
  }
  size_t packed_bytes() const override { return fixed_->packed->size() + fixed_->plain->size(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* in = reinterpret_cast<const float*>(inputs[0]);
    const auto* residual = residual_ ? reinterpret_cast<const float*>(inputs[3]) : nullptr;
    auto* out = reinterpret_cast<float*>(outputs[0]);
    for (int64_t at = 0; at < volumes_.count; ++at) {
      if (at) worker.sync();
      run_volume(in + at * volumes_.in, residual ? residual + at * volumes_.residual : nullptr, out + at * volumes_.out,
                 worker);
    }
  }

 private:
  void run_volume(const float* in, const float* residual, float* out, const Worker& worker) const {
    auto& odd = *reinterpret_cast<uint32_t*>(worker.workspace);
    if (worker.id == 0) odd = 0;
    worker.sync();
    if (!share_is_finite(in, worker)) __atomic_store_n(&odd, 1, __ATOMIC_RELAXED);
    worker.sync();
    Worker inner = worker;
    inner.workspace += line;
    // A zero of a wider window times what is not finite is no number.
    if (__atomic_load_n(&odd, __ATOMIC_RELAXED) != 0) return plain_->run(in, residual, out, inner);
    auto* const beside = reinterpret_cast<float*>(worker.workspace + inner_bytes());
    float* to = shapes_.apart ? beside : out;
    if (residual && shapes_.residual_apart) {
      float* const copy = beside + (shapes_.apart ? apart_floats() : 0);
      take_share(residual, copy, worker);
      worker.sync();
      residual = copy;
    }
    body_->run(in, residual, to, inner);
    if (tail_) {
      worker.sync();
      tail_->run(in + shapes_.tail_in, residual ? residual + shapes_.tail_res : nullptr, to + shapes_.tail_out, inner);
    }
    if (!shapes_.apart) return;
    worker.sync();
    put_share(to, out, worker);
  }
  size_t inner_bytes() const {
    const size_t bytes =
        std::max({body_->workspace_bytes(), plain_->workspace_bytes(), tail_ ? tail_->workspace_bytes() : 0});
    return line + (bytes + line - 1) / line * line;
  }
  /// Floats of an output whose pixels lie side by side.
  int64_t apart_floats() const {
    const ConvShape& s = shapes_.plain;
    return s.batch * s.out_h * s.out_w * s.out_c;
  }
  void take_share(const float* from, float* to, const Worker& worker) const {
    const ConvShape& s = shapes_.plain;
    int64_t begin, end;
    worker.share(s.batch * s.out_h, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float* src = from + row / s.out_h * s.res_image + row % s.out_h * s.res_row;
      float* dst = to + row * s.out_w * s.out_c;
      for (int64_t column = 0; column < s.out_w; ++column)
        std::copy_n(src + column * s.res_pixel, s.out_c, dst + column * s.out_c);
    }
  }
  void put_share(const float* from, float* out, const Worker& worker) const {
    const ConvShape& s = shapes_.plain;
    int64_t begin, end;
    worker.share(s.batch * s.out_h, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float* src = from + row * s.out_w * s.out_c;
      float* dst = out + row / s.out_h * s.out_image + row % s.out_h * s.out_row;
      for (int64_t column = 0; column < s.out_w; ++column)
        for (int64_t c = 0; c < s.out_c; ++c) dst[column * s.out_pixel + c] = src[column * s.out_c + c];
    }
  }
  bool share_is_finite(const float* in, const Worker& worker) const {
    const ConvShape& s = shapes_.plain;
    const int64_t images = s.batch + (s.slices > 1 ? (s.slices - 1) * (s.in_slice / s.in_image) : 0);
    int64_t begin, end;
    worker.share(images * s.in_h, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      float low, high;
      fixed_->loops->ends(in + row / s.in_h * s.in_image + row % s.in_h * s.in_row, s.in_w * s.in_pixel, &low, &high);
      if (!std::isfinite(low) || !std::isfinite(high)) return false;
    }
    return true;
  }

  std::shared_ptr<const Fixed> fixed_;
  Shapes shapes_;
  ConvVolumes volumes_;
  std::unique_ptr<const ConvKernel> body_, tail_, plain_;
  bool residual_;
};

Reason refuses(const Problem& problem) {
  if (!conv_tactic_named(problem, direct)) return Reason::instruction_set;
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  Shapes shapes{};
  return shapes_of(ConvNode(*problem.node), conv_operands(problem), shapes);
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  Shapes shapes{};
  const ConvNode node(*problem.node);
  shapes_of(node, conv_operands(problem), shapes);
  return std::make_unique<PixelsStep>(problem, node, shapes);
}

const backends::KernelRegistrar registered({"Conv", "pixels", 2, refuses, make, "direct"});
const backends::KernelRegistrar of_frames({"tenon:FramesConv", "pixels", 2, refuses, make, "direct"});

}  // namespace
}  // namespace tenon::cpu::conv_pixels
