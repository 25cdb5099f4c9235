// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/kernels/int8/int8.h"
#include "backends/cpu/kernels/int8/int8_support.h"
#include "backends/cpu/kernels/int8_packing.h"
#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

namespace {

class Int8DepthwiseKernel final : public Int8Kernel {
 public:
  Int8DepthwiseKernel(const Int8Conv& conv, const Int8Ops& ops, int threads)
      : ops_(ops), lists_(std::make_shared<Int8Lists>(conv, ops.block, false)) {
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(s.out_c, ops.block), taps = int64_t{s.kernel_h} * s.kernel_w;
    const int64_t pairs = ceil_div(taps, 2);
    static const char tactic = 0;
    packed_ = packed_int8(conv, &tactic, static_cast<size_t>(padded * pairs * 2) * sizeof(int16_t),
                          static_cast<size_t>(padded), {ops.block}, [&](std::byte* bytes, int32_t* start) {
                            auto* packed = reinterpret_cast<int16_t*>(bytes);
                            for (int64_t c = 0; c < s.out_c; ++c) {
                              const int64_t block = c / ops.block;
                              const int place = depthwise_place(ops.block / 2, static_cast<int>(c % ops.block));
                              for (int64_t t = 0; t < taps; ++t) {
                                const int16_t w = conv.weights[c * taps + t];
                                packed[((block * pairs + t / 2) * ops.block + place) * 2 + t % 2] = w;
                                start[block * ops.block + place] -= w;
                              }
                            }
                          });
    plan_.output = lists_->output();
    plan_.packed = reinterpret_cast<const int16_t*>(packed_->bytes.data());
    plan_.start = packed_->start.data();
    plan_.zeros_bytes = align_up(padded, 64);
    fit(s, threads);
  }

  std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Int8DepthwiseKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(threads_ * plan_.zeros_bytes); }
  size_t packed_bytes() const override { return packed_->bytes.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
           const Worker& worker) const override {
    Int8DepthwisePlan plan = plan_;
    plan.in_zero = in_zero;
    each_part(worker, plan.row_splits * plan.channel_splits,
              [&](const Worker& part) { ops_.depthwise(plan, in, residual, out, part); });
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    plan_.shape = shape, threads_ = threads;
    const int64_t rows = shape.batch * shape.out_h, blocks = ceil_div(shape.out_c, ops_.block);
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      const int64_t cost = ceil_div(rows, threads / n) * ceil_div(blocks, n);
      if (threads % n || cost >= best) continue;
      best = cost;
      plan_.row_splits = threads / n;
      plan_.channel_splits = n;
    }
  }

  const Int8Ops& ops_;
  int threads_ = 1;
  Int8DepthwisePlan plan_{};
  std::shared_ptr<const Int8Packed> packed_;
  std::shared_ptr<const Int8Lists> lists_;
};

}  // namespace

Reason refuses_depthwise(const Int8Conv& conv) {
  const ConvShape& s = conv.shape;
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  if (s.groups != s.in_c || s.groups != s.out_c) return {Reason::group, "one input and one output channel"};
  return s.kernel_h * s.kernel_w >= kMostTaps ? Reason(Reason::too_many, kMostTaps - 1, "taps") : Reason();
}

std::unique_ptr<Int8Kernel> make_depthwise(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8DepthwiseKernel>(conv, int8_ops(isa), threads);
}

}  // namespace tenon::cpu
