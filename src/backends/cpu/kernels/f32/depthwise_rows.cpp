// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/depthwise_rows.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kLeastTaps = 10;           // of fewer the copies take longer than they save
constexpr int64_t kBlock = 64;               // channels at most whose rows are copied together
constexpr int64_t kLeastBlock = 16;          // and at least: a line
constexpr int64_t kHeldBytes = 40 << 10;     // of rows that a window sees: most of L1
constexpr int64_t kVolumeBytes = 512 << 10;  // of rows that are kept of all frames: a part of L2

const DepthwiseRowsOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::depthwise_rows_ops;
    case Isa::avx2: return avx2::depthwise_rows_ops;
    case Isa::fused: return fused::depthwise_rows_ops;
    default: return portable::depthwise_rows_ops;
  }
}

// Cuts output rows and blocks of channels between the workers so that the slowest has least to do; rows where both do,
// as then most inputs were written by the worker that reads them.
void plan_split(DepthwiseRowsPlan& plan, int lanes, int threads) {
  const int64_t rows = ceil_div(plan.shape.batch, plan.images) * plan.shape.out_h;
  const int64_t blocks = ceil_div(ceil_div(plan.shape.out_c, lanes), plan.vectors);
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int64_t cost = ceil_div(rows, threads / n) * ceil_div(blocks, n);
    if (cost >= best) continue;
    best = cost, plan.row_splits = threads / n, plan.channel_splits = n;
  }
}

// How many images of a volume are computed together; `frame_bytes`: kept of a frame for the fewest channels.
void plan_frames(DepthwiseRowsPlan& plan, int64_t frame_bytes) {
  const ConvShape& s = plan.shape;
  plan.images = plan.frames = 1;
  plan.frame = plan.image_frames = plan.slice_frames = 0;
  if (s.slices == 1) return;
  plan.frame = s.frame ? s.frame : s.batch > 1 ? std::gcd(s.in_image, s.in_slice) : s.in_slice;
  plan.image_frames = s.batch > 1 ? s.in_image / plan.frame : 0, plan.slice_frames = s.in_slice / plan.frame;
  const int64_t window = (s.slices - 1) * plan.slice_frames + 1;
  if (plan.image_frames > 0)
    plan.images = std::clamp<int64_t>((kVolumeBytes / frame_bytes - window) / plan.image_frames + 1, 1, s.batch);
  plan.frames = (plan.images - 1) * plan.image_frames + window;
}

void plan_rows(DepthwiseRowsPlan& plan, const DepthwiseRowsOps& ops, const ConvShape& s, int threads) {
  const int lanes = ops.lanes;
  plan.shape = s;
  const int64_t pixels = ops.computed(s.out_w);
  plan.columns = (pixels - 1) * s.stride_w + int64_t{s.kernel_w - 1} * s.dilation_w + 1;
  plan.held = int64_t{s.kernel_h - 1} * s.dilation_h + 1;
  const int64_t all = ceil_div(s.out_c, lanes), least = std::max<int64_t>(1, kLeastBlock / lanes);
  const int64_t vector_bytes = plan.held * plan.columns * lanes * static_cast<int64_t>(sizeof(float));
  plan_frames(plan, vector_bytes * std::min(all, kBlock / lanes));
  // Of frames, whose pixels are read side by side, as many as L2 holds.
  const int64_t fit = plan.images > 1 ? kVolumeBytes / (vector_bytes * plan.frames)
                                      : std::min(kHeldBytes / (vector_bytes * plan.frames), kBlock / lanes);
  plan.vectors = ceil_div(all, ceil_div(all, std::max(fit, least)));
  plan_split(plan, lanes, threads);
  const int64_t scratch = pixels * lanes * static_cast<int64_t>(sizeof(float));
  plan.worker_bytes = static_cast<size_t>(set_apart(plan.frames * plan.vectors * vector_bytes + scratch));
}

class DepthwiseRowsKernel final : public ConvKernel {
 public:
  DepthwiseRowsKernel(const DepthwiseRowsOps& ops, const ConvShape& shape, const Epilogue& epilogue,
                      const float* packed, const float* bias, int threads)
      : ops_(ops) {
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, 1, shape.out_c, ops.lanes);
    plan_.packed = packed;
    plan_.bias = bias_->data();
    plan_rows(plan_, ops, shape, threads);
  }

  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<DepthwiseRowsKernel>(*this);
    plan_rows(other->plan_, ops_, shape, threads);
    return other;
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(plan_.row_splits * plan_.channel_splits) * plan_.worker_bytes;
  }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    each_part(worker, plan_.row_splits * plan_.channel_splits,
              [&](const Worker& part) { ops_.run(plan_, in, residual, out, part); });
  }

 private:
  const DepthwiseRowsOps& ops_;
  std::shared_ptr<const AlignedFloats> bias_;
  DepthwiseRowsPlan plan_{};
};

Reason refuses(const ConvShape& s, const Epilogue&) {
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  if (s.groups == 1 || s.groups != s.out_c || s.in_c != s.out_c * s.slices)
    return {Reason::group, "one channel for each output"};
  if (s.slices * s.kernel_h * s.kernel_w < kLeastTaps) return {Reason::window, "larger"};
  if (s.slices * s.kernel_h > DepthwiseRowsPlan::most_rows)
    return {Reason::too_many, DepthwiseRowsPlan::most_rows, "rows of a window"};
  return s.stride_w > s.kernel_w * s.dilation_w ? Reason(Reason::window, "wider than its strides") : Reason();
}

template <Isa kIsa>
size_t packed_floats(const ConvShape& s) {
  return static_cast<size_t>(s.slices * s.kernel_h * s.kernel_w * align_up(s.out_c, ops_of(kIsa).lanes));
}

// The order that DepthwiseRowsPlan::packed states, zeros behind the last channel.
template <Isa kIsa>
void pack(const ConvShape& s, const float* weights, float* packed) {
  const int64_t lanes = ops_of(kIsa).lanes, taps = s.slices * s.kernel_h * s.kernel_w;
  for (int64_t c0 = 0; c0 < s.out_c; c0 += lanes)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = c0; c < c0 + lanes; ++c) *packed++ = c < s.out_c ? weights[c * taps + tap] : 0.f;
}

template <Isa kIsa>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<DepthwiseRowsKernel>(ops_of(kIsa), shape, epilogue, packed, bias, threads);
}

int64_t form(const ConvShape& s) { return s.slices; }

template <Isa kIsa>
ConvTactic tactic() {
  return {"depthwise_rows", refuses, packed_floats<kIsa>, pack<kIsa>, make<kIsa>, form};
}

}  // namespace

ConvTactic depthwise_rows_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa>(); });
}

}  // namespace tenon::cpu
