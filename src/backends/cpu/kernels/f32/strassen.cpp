// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/strassen.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu::strassen {

namespace {

// Where an eighth of the products is more than the sums: those of weights are the work of a dozen rows.
constexpr int64_t kLeastRows = 64, kLeastK = 256, kLeastColumns = 128;
// Steps of a part, rows of a chunk, and what its inputs and their sums may fill of L2.
constexpr int64_t kMostSteps = 768, kMostRows = 256, kInputBytes = 1024 << 10;

const StrassenOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::strassen_ops;
    case Isa::avx2: return avx2::strassen_ops;
    case Isa::fused: return fused::strassen_ops;
    default: return portable::strassen_ops;
  }
}

/// Chunks and parts are those of the sizes alone: results do not depend on the number of workers, who share chunks and
/// pairs of blocks.
void plan_parts(StrassenPlan& plan, const StrassenOps& ops, int threads) {
  plan.depth = align_up(ceil_div(plan.k, ceil_div(plan.k, kMostSteps)), 8);
  plan.parts = ceil_div(plan.k, plan.depth);
  plan.chunks = ceil_div(plan.rows, std::min(kMostRows, kInputBytes / (8 * plan.depth)));
  const int64_t pairs = ceil_div(plan.n, 2 * ops.block);
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int64_t cost = ceil_div(plan.chunks, threads / n) * ceil_div(pairs, n);
    if (cost >= best) continue;
    best = cost;
    plan.row_splits = threads / n, plan.channel_splits = n;
  }
}

/// The largest magnitude of each column of a block: bits of magnitudes are in order, those of infinity and NaN last.
void largest_of(const float* panel, int64_t k, int64_t block, int32_t* largest) {
  std::fill_n(largest, block, 0);
  for (; k > 0; --k, panel += block)
    for (int64_t i = 0; i < block; ++i)
      largest[i] = std::max(largest[i], std::bit_cast<int32_t>(panel[i]) & 0x7fffffff);
}

bool are_unlike(float a, float b) {
  return !(std::isfinite(a) && std::isfinite(b) && a <= kMostUnlike * b && b <= kMostUnlike * a);
}

/// For each pair of blocks. Columns behind the last one are zeros whose results nobody sees.
std::vector<uint8_t> unlike_pairs(const ConvShape& s, const float* packed, int64_t block) {
  const int64_t blocks = ceil_div(s.out_c, block), pairs = blocks / 2, panel = s.in_c * block;
  std::vector<int32_t> largest(blocks * block);
  for (int64_t b = 0; b < 2 * pairs; ++b) largest_of(packed + b * panel, s.in_c, block, &largest[b * block]);
  std::vector<uint8_t> unlike(pairs);
  for (int64_t at = 0; at < pairs * block && at + pairs * block < s.out_c; ++at)
    unlike[at / block] |=
        are_unlike(std::bit_cast<float>(largest[at]), std::bit_cast<float>(largest[at + pairs * block]));
  return unlike;
}

class StrassenKernel final : public ConvKernel {
 public:
  StrassenKernel(const StrassenOps& ops, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                 const float* bias, int threads)
      : ops_(ops),
        zeros_(std::make_shared<AlignedFloats>(shape.in_c)),
        unlike_(std::make_shared<std::vector<uint8_t>>(unlike_pairs(shape, packed, ops.block))) {
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, 1, shape.out_c, ops.block);
    plan_.packed = packed;
    plan_.bias = bias_->data();
    plan_.zeros = zeros_->data();
    plan_.unlike = unlike_->data();
    fit(shape, threads);
  }

  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<StrassenKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.row_splits * plan_.channel_splits; }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    each_part(worker, plan_.row_splits * plan_.channel_splits,
              [&](const Worker& part) { ops_.run(plan_, in, residual, out, part); });
  }

 private:
  void fit(const ConvShape& s, int threads) {
    plan_.rows = s.batch * s.out_h * s.out_w, plan_.k = s.in_c, plan_.n = s.out_c;
    plan_.in_pitch = s.in_pixel, plan_.out_pitch = s.out_pixel, plan_.res_pitch = s.res_pixel;
    plan_parts(plan_, ops_, threads);
    plan_.worker_bytes = set_apart(ops_.worker_bytes(plan_));
  }

  const StrassenOps& ops_;
  StrassenPlan plan_{};
  std::shared_ptr<const AlignedFloats> bias_, zeros_;
  std::shared_ptr<const std::vector<uint8_t>> unlike_;
};

/// Whether rows and images lie one behind the other, so that pixels are rows of a matrix.
bool is_matrix(const ConvShape& s, int64_t image, int64_t row, int64_t pixel) {
  return (s.out_h == 1 || row == s.out_w * pixel) && (s.batch == 1 || image == s.out_h * s.out_w * pixel);
}

Reason refuses(const ConvShape& s, const Epilogue& epilogue) {
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  if (s.groups != 1) return Reason::grouped;
  if (s.kernel_h != 1 || s.kernel_w != 1 || s.stride_h != 1 || s.stride_w != 1 || s.in_h != s.out_h ||
      s.in_w != s.out_w || s.pad_top || s.pad_left)
    return {Reason::window, "one pixel"};
  if (s.slices != 1 || s.frame || !is_matrix(s, s.in_image, s.in_row, s.in_pixel) ||
      !is_matrix(s, s.out_image, s.out_row, s.out_pixel) ||
      (epilogue.residual != Residual::none && !is_matrix(s, s.res_image, s.res_row, s.res_pixel)))
    return {Reason::view, "an operand"};
  if (s.in_c % 8) return {Reason::shape, "the number of input channels", "a multiple of 8"};
  if (s.batch * s.out_h * s.out_w < kLeastRows || s.in_c < kLeastK || s.out_c < kLeastColumns)
    return {Reason::shape, "the product", "of 64 rows, 256 steps and 128 columns at least"};
  return {};
}

template <Isa kIsa>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<StrassenKernel>(ops_of(kIsa), shape, epilogue, packed, bias, threads);
}

}  // namespace
}  // namespace tenon::cpu::strassen

namespace tenon::cpu {

ConvTactic strassen_tactic(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() -> ConvTactic {
    const ConvTactic direct = direct_tactic(kIsa);
    return {"strassen", strassen::refuses, direct.packed_floats, direct.pack, strassen::make<kIsa>, direct.form};
  });
}

}  // namespace tenon::cpu
