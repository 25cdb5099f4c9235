// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/depthwise.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kChunk = 128;  // channels done at a time, so that the rows of a window stay in L1

// Cuts output rows and channels between the workers so that the slowest has least to do; rows where both do, as then
// most inputs were written by the worker that reads them.
void plan_split(DepthwisePlan& plan, int lanes, int threads) {
  const int64_t rows = plan.shape.batch * plan.shape.out_h, vectors = ceil_div(plan.shape.out_c, lanes);
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int64_t cost = ceil_div(rows, threads / n) * ceil_div(vectors, n);
    if (cost >= best) continue;
    best = cost;
    plan.row_splits = threads / n;
    plan.channel_splits = n;
  }
  const int64_t own = ceil_div(vectors, plan.channel_splits) * lanes;
  plan.chunk = plan.row_splits == threads ? own : align_up(ceil_div(own, ceil_div(own, kChunk)), lanes);
}

const DepthwiseOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::depthwise_ops;
    case Isa::avx2: return avx2::depthwise_ops;
    case Isa::fused: return fused::depthwise_ops;
    default: return portable::depthwise_ops;
  }
}

class DepthwiseKernel final : public ConvKernel {
 public:
  DepthwiseKernel(const DepthwiseOps& ops, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                  const float* bias, int threads)
      : ops_(ops) {
    Epilogue own = epilogue;
    bias_ = padded_bias(bias, own, 1, shape.out_c, ops.lanes);
    const int64_t group_in = shape.in_c / shape.groups, group_out = shape.out_c / shape.groups;
    for (int64_t j = 0; j < group_in && group_out > 1; ++j)
      for (int64_t lane = 0; lane < ops.lanes; ++lane)
        index_.push_back(static_cast<int32_t>(lane / group_out * group_in + j));
    plan_ = {shape,   own, packed, bias_->data(), static_cast<int>(group_in), ops.lanes / group_out * group_in,
             nullptr, 1,   1,      shape.out_c};
    fit(shape, threads);
  }

  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<DepthwiseKernel>(*this);
    other->fit(shape, threads);
    return other;
  }

  size_t workspace_bytes() const override { return 0; }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    each_part(worker, plan_.row_splits * plan_.channel_splits,
              [&](const Worker& part) { ops_.run(plan_, in, residual, out, part); });
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    plan_.shape = shape;
    plan_.index = index_.empty() ? nullptr : index_.data();
    plan_split(plan_, ops_.lanes, threads);
  }

  const DepthwiseOps& ops_;
  std::shared_ptr<const AlignedFloats> bias_;
  std::vector<int32_t> index_;
  DepthwisePlan plan_{};
};

template <Isa kIsa>
Reason refuses(const ConvShape& s, const Epilogue&) {
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  const int64_t in = s.in_c / s.groups, out = s.out_c / s.groups;
  if (s.groups == 1 || ops_of(kIsa).lanes % out != 0) return {Reason::group, "a vector of channels"};
  return in > out ? Reason(Reason::group, "no more inputs than outputs") : Reason();
}

template <Isa kIsa>
size_t packed_floats(const ConvShape& s) {
  return s.kernel_h * s.kernel_w * (s.in_c / s.groups) * align_up(s.out_c, ops_of(kIsa).lanes);
}

// The order that DepthwisePlan::packed states, zeros behind the last channel.
template <Isa kIsa>
void pack(const ConvShape& s, const float* weights, float* packed) {
  const int64_t lanes = ops_of(kIsa).lanes, group_in = s.in_c / s.groups;
  for (int64_t c0 = 0; c0 < s.out_c; c0 += lanes) {
    for (int64_t ky = 0; ky < s.kernel_h; ++ky) {
      for (int64_t j = 0; j < group_in; ++j) {
        for (int64_t kx = 0; kx < s.kernel_w; ++kx) {
          for (int64_t c = c0; c < c0 + lanes; ++c) {
            *packed++ = c < s.out_c ? weights[((c * group_in + j) * s.kernel_h + ky) * s.kernel_w + kx] : 0.f;
          }
        }
      }
    }
  }
}

template <Isa kIsa>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<DepthwiseKernel>(ops_of(kIsa), shape, epilogue, packed, bias, threads);
}

template <Isa kIsa>
ConvTactic tactic() {
  return {"depthwise", refuses<kIsa>, packed_floats<kIsa>, pack<kIsa>, make<kIsa>};
}

}  // namespace

ConvTactic depthwise_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa>(); });
}

}  // namespace tenon::cpu
