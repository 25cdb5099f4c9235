// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_columns.h"

#include <cmath>
#include <vector>

#include "backends/cpu/kernels/int8_packing.h"
#include "backends/cpu/kernels/int8/int8_support.h"
#include "backends/cpu/kernels/parts.h"

namespace tenon::cpu {

namespace {

constexpr int kTaps = 3, kVectors = 4;

class Int8ColumnKernel final : public Int8Kernel {
 public:
  Int8ColumnKernel(const Int8Conv& conv, const Int8ColumnOps& ops, bool quads, int threads)
      : ops_(ops), block_(kVectors * ops.lanes), lists_(std::make_shared<Int8Lists>(conv, block_, false)) {
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(s.out_c, block_);
    plan_.output = lists_->output();
    Int8Output& o = plan_.output;
    for (const float** list : {&o.multiplier, &o.bias, &o.inverse_scale, &o.epilogue.slopes})
      *list = in_places(*list, padded);
    plan_.quads = quads ? static_cast<int>(ceil_div(s.kernel_w, 4)) : 0;
    plan_.units = quads ? int64_t{s.kernel_h} * plan_.quads : kTaps;
    const auto fill = [&](std::byte* bytes, int32_t* start) {
      auto* const packed = reinterpret_cast<int8_t*>(bytes);
      const int64_t taps = int64_t{s.kernel_h} * s.kernel_w;
      for (int64_t c = 0; c < s.out_c; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int16_t w = conv.weights[c * taps + tap];
          const int64_t block = c / block_, place = column_place(ops.lanes, c % block_);
          const int64_t y = tap / s.kernel_w, x = tap % s.kernel_w;
          const int64_t unit = quads ? y * plan_.quads + x / 4 : x, byte = quads ? x % 4 : y;
          packed[((block * plan_.units + unit) * block_ + place) * 4 + byte] = static_cast<int8_t>(w);
          start[block * block_ + place] -= w;
        }
    };
    static const char tactic = 0;
    packed_ = packed_int8(conv, &tactic, static_cast<size_t>(padded * plan_.units * 4), static_cast<size_t>(padded),
                          {ops.lanes, quads}, fill);
    plan_.packed = reinterpret_cast<const int8_t*>(packed_->bytes.data());
    plan_.start = packed_->start.data();
    fold_clamps(conv);
    fit(s, threads);
  }

  std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Int8ColumnKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(plan_.worker_bytes * plan_.row_splits * plan_.channel_splits);
  }
  size_t packed_bytes() const override { return packed_->bytes.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t*, void* out, const Worker& worker) const override {
    Int8ColumnPlan plan = plan_;
    plan.in_zero = in_zero;
    each_part(worker, plan.row_splits * plan.channel_splits, [&](const Worker& part) {
      (plan.quads ? ops_.run_quads : ops_.run)(plan, in, static_cast<uint8_t*>(out), part);
    });
  }

 private:
  const float* in_places(const float* list, int64_t padded) {
    const auto values = std::make_shared<AlignedFloats>(static_cast<size_t>(padded));
    for (int64_t c = 0; c < padded; ++c)
      (*values)[static_cast<size_t>(c / block_ * block_ + column_place(ops_.lanes, c % block_))] = list[c];
    places_.push_back(values);
    return values->data();
  }

  void fit(const ConvShape& shape, int threads) {
    plan_.shape = shape;
    plan_.positions = plan_.worker_bytes = 0;
    if (plan_.quads) {
      plan_.positions = shape.out_w + int64_t{plan_.quads - 1} * (4 / shape.stride_w);
      plan_.worker_bytes = set_apart(shape.kernel_h * plan_.positions * block_ * 4);
    }
    const int64_t rows = shape.batch * shape.out_h, blocks = ceil_div(shape.out_c, block_);
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      const int64_t cost = ceil_div(rows, threads / n) * ceil_div(blocks, n);
      if (threads % n || cost >= best) continue;
      best = cost;
      plan_.row_splits = threads / n;
      plan_.channel_splits = n;
    }
  }

  // Rounding keeps order, so that a clamp ahead of it is one of bytes.
  void fold_clamps(const Int8Conv& conv) {
    const Epilogue& e = plan_.output.epilogue;
    const auto byte = [&](float steps) {
      const auto zero = static_cast<float>(conv.out_zero);
      return static_cast<uint8_t>(std::nearbyint(std::clamp(steps, -zero, 255 - zero)) + zero);
    };
    plan_.low = plan_.output.in_steps ? byte(e.alpha) : 0;
    plan_.high = plan_.output.in_steps ? byte(e.beta) : 255;
  }

  const Int8ColumnOps& ops_;
  int64_t block_;
  std::shared_ptr<const Int8Lists> lists_;
  std::vector<std::shared_ptr<const AlignedFloats>> places_;
  Int8ColumnPlan plan_{};
  std::shared_ptr<const Int8Packed> packed_;
};

}  // namespace

Reason refuses_columns(const Int8Conv& conv) {
  const ConvShape& s = conv.shape;
  if (const Reason reason = refuses_bytes(conv)) return reason;
  if (s.groups != s.in_c || s.groups != s.out_c) return {Reason::group, "one input and one output channel"};
  if (s.kernel_h != kTaps || s.kernel_w != kTaps || s.dilation_h != 1 || s.dilation_w != 1)
    return {Reason::window, "3x3"};
  if (s.stride_w > 2) return {Reason::strides, "1 or 2"};
  if (!conv.inverse_scale) return {Reason::element_type, "results", "bytes"};
  if (conv.epilogue.residual != Residual::none) return Reason::residual;
  return is_bounded(conv) ? Reason() : Reason(Reason::overflow, "outputs", 31);
}

Reason refuses_quads(const Int8Conv& conv) {
  const ConvShape& s = conv.shape;
  if (const Reason reason = refuses_bytes(conv)) return reason;
  if (s.groups != s.in_c || s.groups != s.out_c) return {Reason::group, "one input and one output channel"};
  if (s.kernel_w < 4 || s.dilation_h != 1 || s.dilation_w != 1) return {Reason::window, "four columns or more"};
  if (s.stride_w != 1 && s.stride_w != 2 && s.stride_w != 4) return {Reason::strides, "1, 2 or 4"};
  if (!conv.inverse_scale) return {Reason::element_type, "results", "bytes"};
  if (conv.epilogue.residual != Residual::none) return Reason::residual;
  return is_bounded(conv) ? Reason() : Reason(Reason::overflow, "outputs", 31);
}

namespace {

template <bool quads>
std::unique_ptr<Int8Kernel> make(const Int8Conv& conv, Isa isa, int threads) {
  const Int8ColumnOps& ops = vectors_of(isa) == Isa::avx512 ? avx512::int8_column_ops : avx2::int8_column_ops;
  return std::make_unique<Int8ColumnKernel>(conv, ops, quads, threads);
}

}  // namespace

std::unique_ptr<Int8Kernel> make_columns(const Int8Conv& conv, Isa isa, int threads) {
  return make<false>(conv, isa, threads);
}

std::unique_ptr<Int8Kernel> make_quads(const Int8Conv& conv, Isa isa, int threads) {
  return make<true>(conv, isa, threads);
}

}  // namespace tenon::cpu
