// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/packing.h"
#include "backends/cpu/kernels/support.h"
#include "backends/kernel.h"
#include "ops/inverted_bottleneck.h"

namespace tenon::cpu::conv_pair {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t strip_bytes = 384 << 10;  // of the result in between: well inside L2, beside weights and inputs

/// A group's two convolutions as problems of their own.
struct Pair {
  ops::Bottleneck nodes;
  Problem first, second;

  explicit Pair(const Problem& whole) : nodes(ops::bottleneck_of(*whole.node)), first(whole), second(whole) {
    first.node = &nodes.parts[0], second.node = &nodes.parts[1];
    const auto operand = [&](size_t at) { return at < whole.inputs.size() ? whole.inputs[at] : Operand{}; };
    Operand between;
    between.dtype = DType::f32, between.dims = whole.inputs[0].dims;
    if (operand(1)) between.dims[between.dims.rank() - 1] = operand(1).dims[0];
    between.strides = backends::dense_strides(between.dims);
    first.inputs = {operand(0), operand(1), operand(2)}, first.outputs = {between};
    second.inputs = {between, operand(3), operand(4)};
    if (operand(ops::bottleneck_residual)) second.inputs.push_back(operand(ops::bottleneck_residual));
  }
  Pair(const Pair&) = delete;
  bool is_one() const { return nodes.has_expansion && !nodes.has_projection; }
};

/// What the nodes of a group's two convolutions say, for all sizes.
struct Nodes {
  ConvNode first, second;
  explicit Nodes(const ops::Bottleneck& of) : first(of.parts[0]), second(of.parts[1]) {}
};

struct Shapes {
  ConvShape first{}, second{};
};

Reason shapes_of(const Nodes& nodes, const Problem& whole, Shapes& shapes) {
  const auto operand = [&](size_t at) {
    return at < whole.inputs.size() && whole.inputs[at] ? &whole.inputs[at] : nullptr;
  };
  const Operand absent, &expand = operand(1) ? *operand(1) : absent;
  Operand between;
  between.dtype = DType::f32, between.dims = whole.inputs[0].dims;
  if (expand) between.dims[between.dims.rank() - 1] = expand.dims[0];
  between.strides = backends::dense_strides(between.dims);
  const ConvOperands first{whole.inputs[0], expand, operand(2), nullptr, between};
  if (const Reason reason = conv_shape_of(nodes.first, first, shapes.first)) return reason;
  const ConvOperands second{between, operand(3) ? *operand(3) : absent, operand(4), operand(ops::bottleneck_residual),
                            whole.outputs[0]};
  if (const Reason reason = conv_shape_of(nodes.second, second, shapes.second)) return reason;
  const ConvShape& a = shapes.first;
  if (a.in_nchw || shapes.second.in_nchw) return {Reason::layout, "NHWC"};
  if (a.kernel_h != 1 || a.kernel_w != 1 || a.stride_h != 1 || a.stride_w != 1 || a.pad_top != 0 || a.pad_left != 0 ||
      a.groups != 1)
    return Reason::pointwise;
  return a.in_h == a.out_h && a.in_w == a.out_w ? Reason() : Reason(Reason::padding, "0");
}

Reason refuses_shapes(const Nodes& nodes, const ConvTactic& direct, const ConvTactic& depthwise, const Shapes& shapes) {
  if (direct.refuses(shapes.first, nodes.first.epilogue)) return Reason::other_kernel;
  return depthwise.refuses(shapes.second, nodes.second.epilogue);
}

/// Whether one image is like another; there may be more of them in one.
bool are_alike(const ConvShape& a, const ConvShape& b) {
  const auto numbers = [](const ConvShape& s) {
    return std::array{s.in_h,      s.in_w,    s.out_h,    s.out_w,     int64_t{s.pad_top}, int64_t{s.pad_left},
                      s.in_image,  s.in_row,  s.in_pixel, s.out_image, s.out_row,          s.out_pixel,
                      s.res_image, s.res_row, s.res_pixel};
  };
  return numbers(a) == numbers(b);
}

/// A pointwise convolution whose result a depthwise one reads, in strips of rows: each worker keeps a strip of the
/// result in between.
class ConvPairStep : public backends::Step {
 public:
  explicit ConvPairStep(const Problem& whole) : ConvPairStep(whole, Pair(whole)) {}

  std::unique_ptr<Step> resized(const Problem& whole) const override {
    Shapes shapes;
    if (whole.inputs[1].constant.data() != weights_.data() || shapes_of(nodes_, whole, shapes) ||
        refuses_shapes(nodes_, *a_tactic_, *b_tactic_, shapes) || !packs_alike(*a_tactic_, shapes.first, a_) ||
        !packs_alike(*b_tactic_, shapes.second, b_))
      return nullptr;
    auto other = std::make_unique<ConvPairStep>(*this);
    // A strip lies in one image: those of more images are the same.
    if (!are_alike(shapes.first, a_) || !are_alike(shapes.second, b_))
      other->kernel_bytes_ = 0, other->a_kernels_.clear(), other->b_kernels_.clear();
    other->fit(shapes, whole.threads);
    return other;
  }
  size_t packed_bytes() const override { return a_packed_->size() + b_packed_->size(); }
  size_t workspace_bytes() const override { return static_cast<size_t>(threads_) * worker_bytes(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    each_part(worker, threads_, [&](const Worker& part) { run_part(inputs, outputs, part); });
  }

 private:
  ConvPairStep(const Problem& whole, const Pair& pair) : nodes_(pair.nodes), weights_(whole.inputs[1].constant) {
    Shapes shapes;
    shapes_of(nodes_, whole, shapes);
    a_tactic_ = conv_tactic_named(pair.first, "direct");
    b_tactic_ = conv_tactic_named(pair.second, "depthwise");
    a_packed_ = packed(*a_tactic_, shapes.first, pair.first);
    b_packed_ = packed(*b_tactic_, shapes.second, pair.second);
    a_model_ = a_tactic_->make(shapes.first, nodes_.first.epilogue, floats_of(*a_packed_), bias_of(pair.first), 1);
    b_model_ = b_tactic_->make(shapes.second, nodes_.second.epilogue, floats_of(*b_packed_), bias_of(pair.second), 1);
    residual_ = nodes_.second.epilogue.residual != Residual::none;
    fit(shapes, whole.threads);
  }

  void run_part(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const {
    const auto* in = reinterpret_cast<const float*>(inputs[0]);
    const float* residual = residual_ ? reinterpret_cast<const float*>(inputs[ops::bottleneck_residual]) : nullptr;
    auto* out = reinterpret_cast<float*>(outputs[0]);
    std::byte* own = worker.workspace + static_cast<size_t>(worker.id) * worker_bytes();
    auto* strip_data = reinterpret_cast<float*>(own);
    const Worker alone{0, 1, worker.barrier, worker.thread_pool, own + strip_floats_ * sizeof(float)};
    const int64_t row = a_.out_w * a_.out_c;
    const int64_t rows = b_.batch * b_.out_h;
    each_strip(rows * worker.id / worker.count, rows * (worker.id + 1) / worker.count, [&](const Strip& strip) {
      if (strip.kept > 0)
        std::memmove(strip_data, strip_data + (strip.before - strip.kept) * row,
                     static_cast<size_t>(strip.kept * row) * sizeof(float));
      const int64_t fresh = strip.end - strip.begin - strip.kept;
      if (fresh > 0)
        find(a_kernels_, fresh)
            ->run(in + strip.image * a_.in_image + (strip.begin + strip.kept) * a_.in_row, nullptr,
                  strip_data + strip.kept * row, alone);
      find(b_kernels_, key(strip))
          ->run(strip_data, residual ? residual + strip.image * b_.res_image + strip.y * b_.res_row : nullptr,
                out + strip.image * b_.out_image + strip.y * b_.out_row, alone);
    });
  }

  struct Strip {
    int64_t image, y, rows;  // output rows [y, y + rows)
    int64_t begin, end;      // rows of the result in between that they see
    int64_t before, kept;    // rows held by the strip before, and how many of its last ones come first in this one
  };
  using Key = std::tuple<int64_t, int64_t, int64_t>;  // rows held, output rows, padding above
  /// A few, which steps of other sizes share where these are the same.
  template <class By>
  using Kernels = std::vector<std::pair<By, std::shared_ptr<const ConvKernel>>>;
  /// nullptr: there is none yet.
  template <class By>
  static const ConvKernel* find(const Kernels<By>& kernels, const By& by) {
    for (const auto& [key, kernel] : kernels)
      if (key == by) return kernel.get();
    return nullptr;
  }

  static const float* bias_of(const Problem& problem) {
    return problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
  }
  static Packed packed(const ConvTactic& tactic, const ConvShape& shape, const Problem& problem) {
    return packed_weights(problem, tactic, shape, [&] { return weights_f32(problem.inputs[1].constant); });
  }

  int64_t pad_above(const Strip& strip) const { return std::max<int64_t>(0, b_.pad_top - strip.y * b_.stride_h); }
  Key key(const Strip& strip) const { return {strip.end - strip.begin, strip.rows, pad_above(strip)}; }
  size_t worker_bytes() const { return set_apart(strip_floats_ * sizeof(float) + kernel_bytes_); }

  /// The strips of rows [at, stop) of all images, from the top down.
  template <class F>
  void each_strip(int64_t at, int64_t stop, F f) const {
    int64_t held_begin = 0, held_end = 0, held_image = -1;
    while (at < stop) {
      Strip strip{};
      strip.image = at / b_.out_h;
      strip.y = at % b_.out_h;
      strip.rows = std::min({strip_rows_, b_.out_h - strip.y, stop - at});
      const int64_t top = strip.y * b_.stride_h - b_.pad_top;
      strip.begin = std::clamp<int64_t>(top, 0, b_.in_h);
      strip.end = std::clamp<int64_t>(
          top + (strip.rows - 1) * b_.stride_h + int64_t{b_.kernel_h - 1} * b_.dilation_h + 1, strip.begin, b_.in_h);
      if (held_image == strip.image && held_end > strip.begin && held_begin <= strip.begin) {
        strip.before = held_end - held_begin;
        strip.kept = held_end - strip.begin;
      }
      f(strip);
      held_image = strip.image;
      held_begin = strip.begin;
      held_end = strip.end;
      at += strip.rows;
    }
  }

  void fit(const Shapes& shapes, int threads) {
    a_ = shapes.first, b_ = shapes.second, threads_ = threads;
    const int64_t row_bytes = a_.out_w * a_.out_c * static_cast<int64_t>(sizeof(float));
    const int64_t window = int64_t{b_.kernel_h - 1} * b_.dilation_h + 1;
    strip_rows_ = std::clamp<int64_t>((strip_bytes / row_bytes - window) / b_.stride_h + 1, 1, b_.out_h);
    const int64_t held_rows = (strip_rows_ - 1) * b_.stride_h + window;
    strip_floats_ = static_cast<size_t>(held_rows * a_.out_w * a_.out_c + 63) / 64 * 64;
    const auto prepared = [&](const Strip& strip) { prepare(strip); };
    const int64_t rows = b_.batch * b_.out_h, image = b_.out_h;
    for (int id = 0; id < threads_; ++id) {
      const int64_t begin = rows * id / threads_, end = rows * (id + 1) / threads_;
      const int64_t first = std::min(end, (begin + image - 1) / image * image),
                    last = std::max(first, end / image * image);
      each_strip(begin, first, prepared);
      // One of the whole images between them stands for all.
      each_strip(first, std::min(last, first + image), prepared);
      each_strip(last, end, prepared);
    }
  }

  void prepare(const Strip& strip) {
    const int64_t row = a_.out_w * a_.out_c;
    if (const int64_t fresh = strip.end - strip.begin - strip.kept; fresh > 0 && !find(a_kernels_, fresh)) {
      ConvShape shape = a_;
      shape.batch = 1;
      shape.in_h = shape.out_h = fresh;
      shape.out_pixel = a_.out_c;
      shape.out_row = row;
      shape.out_image = row * fresh;
      add(a_kernels_, fresh, a_model_->resized(shape, 1));
    }
    if (find(b_kernels_, key(strip))) return;
    ConvShape shape = b_;
    shape.batch = 1;
    shape.in_h = strip.end - strip.begin;
    shape.out_h = strip.rows;
    shape.pad_top = static_cast<int>(pad_above(strip));
    shape.in_pixel = a_.out_c;
    shape.in_row = row;
    shape.in_image = row * shape.in_h;
    add(b_kernels_, key(strip), b_model_->resized(shape, 1));
  }

  template <class By>
  void add(Kernels<By>& kernels, const By& by, std::shared_ptr<const ConvKernel> kernel) {
    kernel_bytes_ = std::max(kernel_bytes_, kernel->workspace_bytes());
    kernels.emplace_back(by, std::move(kernel));
  }

  Nodes nodes_;
  ConvShape a_{}, b_{};
  const ConvTactic *a_tactic_ = nullptr, *b_tactic_ = nullptr;
  Tensor weights_;
  Packed a_packed_, b_packed_;
  std::shared_ptr<const ConvKernel> a_model_, b_model_;  // that others are made of
  int threads_ = 1;
  bool residual_ = false;
  size_t strip_floats_ = 0, kernel_bytes_ = 0;
  int64_t strip_rows_ = 1;
  Kernels<int64_t> a_kernels_;  // by rows computed
  Kernels<Key> b_kernels_;
};

Reason refuses(const Problem& problem) {
  const Pair pair(problem);
  if (!takes_weights(pair.first) || !takes_weights(pair.second)) return {Reason::element_type, "elements", "f32"};
  if (!pair.is_one()) return {Reason::form, "pair of convolutions"};
  const Nodes nodes(pair.nodes);
  if (nodes.first.epilogue.residual != Residual::none) return Reason::residual;
  const ConvTactic *direct = conv_tactic_named(pair.first, "direct"),
                   *depthwise = conv_tactic_named(pair.second, "depthwise");
  Shapes shapes;
  if (const Reason reason = shapes_of(nodes, problem, shapes)) return reason;
  if (!direct || !depthwise) return Reason::other_kernel;
  return refuses_shapes(nodes, *direct, *depthwise, shapes);
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ConvPairStep>(problem); }

const backends::KernelRegistrar registered({"tenon:ConvPair", "strips", 1, refuses, make, "direct depthwise"});

}  // namespace
}  // namespace tenon::cpu::conv_pair
