// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/direct.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/panels.h"
#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"
#include "ops/half.h"

namespace tenon::cpu {

namespace {

// Floats of K per block: a weight panel of 384 x 16 floats is 24 KB of L1.
constexpr int kBlockK = 384;
// Activations of a pixel block: near L1 when all weights stay in L2, otherwise most of L2 so that weights pass rarely.
constexpr int64_t kSmallBlockBytes = 48 << 10, kLargeBlockBytes = 192 << 10, kResidentWeights = 256 << 10;
constexpr int64_t kMinTiles = 4, kMaxTiles = 170;
// Activations of so many tiles, and what of them is multiplied before K goes on, with sums that wait.
constexpr int64_t kFewTiles = 16, kLongTiles = 640 << 10, kLongBlockBytes = 512 << 10, kSumBytes = 3 << 20;

const DirectOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::direct_ops;
    case Isa::avx2: return avx2::direct_ops;
    case Isa::fused: return fused::direct_ops;
    default: return portable::direct_ops;
  }
}

int64_t group_in(const ConvShape& s) { return s.in_c / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_c / s.groups; }
int64_t sum_length(const ConvShape& s) { return group_in(s) * s.kernel_h * s.kernel_w; }

// Cuts pixels and output channels between the workers so that the slowest has least to do, in cycles: 6 per tile and
// step of K, and 8 bytes of weights or activations per cycle; 4 of activations that other workers may have written.
void plan_split(DirectPlan& plan, const DirectOps& ops, int threads) {
  const ConvShape& s = plan.shape;
  const int64_t tiles = ceil_div(s.batch * s.out_h * s.out_w, ops.tile_pixels);
  const int64_t blocks = ceil_div(group_out(s), ops.block) * s.groups;
  const int64_t weights = blocks * ops.block * plan.k * 4, inputs = s.batch * s.in_h * s.in_w * s.in_c * 4;
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int m = threads / n;
    const int64_t cost =
        ceil_div(tiles, m) * ceil_div(blocks, n) * plan.k * 6 + weights / n / 8 + inputs / m / (n > 1 ? 4 : 8);
    if (cost >= best) continue;
    best = cost;
    plan.pixel_splits = m;
    plan.channel_splits = n;
  }
  const int64_t reach = s.kernel_h * s.kernel_w > 1 ? s.stride_h * s.stride_w : 1;
  const int64_t tile_bytes = 4 * group_in(s) * reach * ops.tile_pixels;
  const int64_t target = weights / plan.channel_splits <= kResidentWeights ? kSmallBlockBytes : kLargeBlockBytes;
  const int64_t most = std::min(kMaxTiles, ceil_div(tiles, plan.pixel_splits));
  plan.block_tiles = static_cast<int>(std::min(most, std::max(kMinTiles, target / tile_bytes)));
  plan.k_together = plan.k_blocks;
  // Long sums of few tiles: weights would pass once for every four tiles, whose activations fill L2. Sums between parts
  // of K lie in memory instead.
  const int64_t sums = ceil_div(blocks, plan.channel_splits) * ops.block * ops.tile_pixels * 4;  // of a tile
  const int64_t mine = ceil_div(tiles, plan.pixel_splits), all = std::min(mine, kSumBytes / sums);
  if (target == kSmallBlockBytes || reach > 1 || s.groups > 1 || mine > kFewTiles ||
      tile_bytes * kMinTiles < kLongTiles || all <= plan.block_tiles)
    return;
  plan.block_tiles = static_cast<int>(all);
  const int64_t a_block = all * ops.tile_pixels * kBlockK * 4;
  plan.k_together = static_cast<int>(std::clamp<int64_t>(kLongBlockBytes / a_block, 1, plan.k_blocks));
}

// What weights are multiplied by one pixel, and stored as.
enum class Gemv : uint8_t { none, f32, f16, bf16 };

class DirectKernel final : public ConvKernel {
 public:
  DirectKernel(const DirectOps& ops, Gemv gemv, const ConvShape& shape, const Epilogue& epilogue, const float* packed,
               const float* bias, int threads)
      : ops_(ops), gemv_(gemv) {
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, shape.groups, group_out(shape), ops.block);
    plan_.packed = packed;
    plan_.bias = bias_->data();
    fit(shape, threads);
    // Of a kernel row, where images of some pitch may have that for a unit.
    const int64_t row = shape.kernel_w * group_in(shape);
    // Windows of all groups are read at the same distance from those of the first, zeros, too.
    const int64_t beyond = shape.in_c - group_in(shape);
    zeros_ = std::make_shared<AlignedFloats>((row <= kBlockK ? row : plan_.chunk) + beyond);
    plan_.zeros = zeros_->data();
  }

  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<DirectKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override {
    return gemv_ != Gemv::none ? 0 : plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits;
  }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    if (gemv_ == Gemv::f32) return ops_.gemv(plan_, in, residual, out, worker);
    if (gemv_ == Gemv::f16) return ops_.gemv_f16(plan_, in, residual, out, worker);
    if (gemv_ == Gemv::bf16) return ops_.gemv_bf16(plan_, in, residual, out, worker);
    each_part(worker, plan_.pixel_splits * plan_.channel_splits,
              [&](const Worker& part) { ops_.run(plan_, in, residual, out, part); });
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    plan_windows(plan_, shape, kBlockK);
    plan_split(plan_, ops_, threads);
    plan_.worker_bytes = set_apart(ops_.worker_bytes(plan_));
  }

  const DirectOps& ops_;
  Gemv gemv_;
  DirectPlan plan_{};
  std::shared_ptr<const AlignedFloats> bias_, zeros_;
};

Reason direct_refuses(const ConvShape& s, const Epilogue&) {
  return s.in_nchw ? Reason(Reason::layout, "NHWC") : Reason();
}

Reason gemv_refuses(const ConvShape& s, const Epilogue&) {
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  if (s.out_h != 1 || s.out_w != 1 || s.in_h != 1 || s.in_w != 1 || s.kernel_h != 1 || s.kernel_w != 1)
    return {Reason::window, "the whole of one pixel"};
  return s.groups != 1 ? Reason(Reason::grouped) : Reason();
}

template <Isa kIsa, Gemv kGemv>
size_t packed_floats(const ConvShape& s) {
  const size_t elements = align_up(group_out(s), ops_of(kIsa).block) * s.groups * sum_length(s);
  return kGemv == Gemv::f16 || kGemv == Gemv::bf16 ? (elements + 1) / 2 : elements;
}

// [group][block][slice][tap][channel of a slice of the group][output channel of the block], zeros behind the last
// output channel.
template <Isa kIsa, Gemv kGemv>
void pack(const ConvShape& s, const float* weights, float* floats) {
  const int64_t block = ops_of(kIsa).block, c = group_in(s), out = group_out(s), taps = s.kernel_h * s.kernel_w,
                of_slice = c / s.slices;
  using Element = std::conditional_t<kGemv == Gemv::f16 || kGemv == Gemv::bf16, uint16_t, float>;
  const auto element = [](float value) -> Element {
    if constexpr (kGemv == Gemv::f16) return ops::f16_bits(value);
    else if constexpr (kGemv == Gemv::bf16) return ops::bf16_bits(value);
    else return value;
  };
  auto* packed = reinterpret_cast<Element*>(floats);
  for (int64_t g = 0; g < s.groups; ++g) {
    for (int64_t n0 = 0; n0 < out; n0 += block) {
      const int64_t used = std::min(block, out - n0);
      const float* from = weights + (g * out + n0) * c * taps;
      for (int64_t unit = 0; unit < s.slices * taps; ++unit) {
        const int64_t first = unit / taps * of_slice, tap = unit % taps;
        for (int64_t i = first; i < first + of_slice; ++i, packed += block) {
          for (int64_t n = 0; n < block; ++n) packed[n] = element(n < used ? from[(n * c + i) * taps + tap] : 0.f);
        }
      }
    }
  }
}

template <Isa kIsa, Gemv kGemv>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<DirectKernel>(ops_of(kIsa), kGemv, shape, epilogue, packed, bias, threads);
}

constexpr const char* name_of(Gemv gemv) {
  switch (gemv) {
    case Gemv::f32: return "gemv";
    case Gemv::f16: return "gemv_f16";
    case Gemv::bf16: return "gemv_bf16";
    default: return "direct";
  }
}

template <Isa kIsa, Gemv kGemv>
ConvTactic tactic() {
  constexpr Gemv stored = kGemv == Gemv::none ? Gemv::f32 : kGemv;  // both take what either has packed
  return {name_of(kGemv),
          kGemv == Gemv::none ? direct_refuses : gemv_refuses,
          packed_floats<kIsa, stored>,
          pack<kIsa, stored>,
          make<kIsa, kGemv>,
          form_of_slices};
}

template <Gemv kGemv>
ConvTactic tactic_for(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa, kGemv>(); });
}

}  // namespace

ConvTactic direct_tactic(Isa isa) { return tactic_for<Gemv::none>(isa); }
ConvTactic gemv_tactic(Isa isa) { return tactic_for<Gemv::f32>(isa); }
ConvTactic gemv_f16_tactic(Isa isa) { return tactic_for<Gemv::f16>(isa); }
ConvTactic gemv_bf16_tactic(Isa isa) { return tactic_for<Gemv::bf16>(isa); }

namespace {

template <int64_t kColumns>
void copy_rows(float* to, const float* from, int64_t pitch, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(to + row * kColumns, from + row * pitch, kColumns * sizeof(float));
}

}  // namespace

size_t gemm_workspace_floats(Isa isa, const GemmShape& g) {
  const int64_t block = ops_of(isa).block;
  return align_up((g.k + 1) * block, 16) + (g.trans_a ? g.m * g.k : 0);
}

void gemm(Isa isa, const GemmShape& g, const float* a, const float* b, float* c, const float* bias, float* workspace) {
  const DirectOps& ops = ops_of(isa);
  const int64_t block = ops.block;
  float* const padded_bias = workspace + g.k * block;
  int64_t lda = g.lda;
  if (g.trans_a) {
    float* rows = workspace + align_up((g.k + 1) * block, 16);
    loops(isa).turn(reinterpret_cast<uint32_t*>(rows), g.k, reinterpret_cast<const uint32_t*>(a), g.lda, g.k, g.m);
    a = rows;
    lda = g.k;
  }
  for (int64_t n0 = 0; n0 < g.n; n0 += block) {
    const int64_t used = std::min(block, g.n - n0);
    pack_panel(isa, b, g.ldb, g.trans_b, g.n, g.k, n0, 1, workspace);
    if (bias) {
      std::fill_n(padded_bias, block, 0.f);
      std::copy_n(bias + n0, used, padded_bias);
    }
    ops.gemm_panel(a, lda, g.m, workspace, g.k, bias ? padded_bias : nullptr, c + n0, g.ldc, static_cast<int>(used));
  }
}

int64_t panel_columns(Isa isa) { return ops_of(isa).block; }

void pack_panel(Isa isa, const float* b, int64_t ldb, bool transposed, int64_t n, int64_t k, int64_t first,
                float factor, float* panel) {
  const int64_t block = ops_of(isa).block, used = std::min(block, n - first);
  if (used < block) std::fill_n(panel, k * block, 0.f);
  if (transposed)
    loops(isa).turn(reinterpret_cast<uint32_t*>(panel), block, reinterpret_cast<const uint32_t*>(b + first * ldb), ldb,
                    used, k);
  else if (used == block && block == 32) copy_rows<32>(panel, b + first, ldb, k);
  else if (used == block && block == 16) copy_rows<16>(panel, b + first, ldb, k);
  else
    for (int64_t row = 0; row < k; ++row) std::copy_n(b + row * ldb + first, used, panel + row * block);
  if (factor != 1)
    for (int64_t at = 0; at < k * block; ++at) panel[at] *= factor;
}

void multiply_panel(Isa isa, const float* a, int64_t lda, int64_t m, const float* panel, int64_t k, float* c,
                    int64_t ldc, int64_t columns) {
  ops_of(isa).gemm_panel(a, lda, m, panel, k, nullptr, c, ldc, static_cast<int>(columns));
}

}  // namespace tenon::cpu
