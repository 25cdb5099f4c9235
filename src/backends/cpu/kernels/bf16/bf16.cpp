// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/bf16/bf16.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"
#include "base/hash.h"

namespace tenon::cpu {

namespace {

constexpr int kElement = 2;

uint16_t bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The plan for one thread: how weights are packed does not depend on how many there are.
TilePlan packing_of(const ConvShape& s, TileUnit unit, std::vector<int64_t>& offsets) {
  TilePlan plan{};
  plan_tiles(plan, s, unit, kElement, false, 1, offsets);
  return plan;
}

template <TileUnit kUnit>
class Bf16Kernel final : public ConvKernel {
 public:
  Bf16Kernel(const ConvShape& shape, const Epilogue& epilogue, const float* packed, const float* bias, int threads) {
    plan_.packed = reinterpret_cast<const std::byte*>(packed);
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, shape.groups, shape.out_c / shape.groups, kTileBlock);
    plan_.bias = bias_->data();
    fit(shape, threads);
  }
  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Bf16Kernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    each_part(worker, plan_.pixel_splits * plan_.channel_splits, [&](const Worker& part) {
      (kUnit == TileUnit::tiles ? amx::run_bf16_tiles : avx512_bf16::run_bf16_dots)(plan_, in, residual, out, part);
    });
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    TilePlan plan{.packed = plan_.packed};
    plan_tiles(plan, shape, kUnit, kElement, plan_.epilogue.residual != Residual::none, threads, offsets_);
    static_cast<TilePlan&>(plan_) = plan;
  }

  Bf16Plan plan_{};
  std::shared_ptr<const AlignedFloats> bias_;
  std::vector<int64_t> offsets_;
};

template <TileUnit kUnit>
Reason refuses(const ConvShape& s, const Epilogue&) {
  constexpr int most_planes = 4;
  if (s.in_nchw && kUnit == TileUnit::tiles) return {Reason::layout, "NHWC"};
  if (s.in_nchw && s.in_c > most_planes) return {Reason::too_many, most_planes, "input channels"};
  if (s.in_nchw && s.groups > 1) return Reason::grouped;
  if (s.in_nchw && s.in_c * (s.dilation_w == 1 ? s.kernel_w : 1) == 1) return {Reason::too_few, 2, "products in a row"};
  if (s.in_c == 0 || s.out_c == 0 || s.out_h == 0 || s.out_w == 0) return Reason::empty;
  return s.groups > 1 && s.out_c / s.groups < 8 ? Reason(Reason::group, "half a tile of channels") : Reason();
}

template <TileUnit kUnit>
size_t packed_floats(const ConvShape& s) {
  std::vector<int64_t> offsets;
  return static_cast<size_t>(tile_packed_bytes(packing_of(s, kUnit, offsets))) / sizeof(float);
}

template <TileUnit kUnit>
void pack(const ConvShape& s, const float* weights, float* packed) {
  std::vector<int64_t> offsets;
  const TilePlan plan = packing_of(s, kUnit, offsets);
  auto* const to = reinterpret_cast<std::byte*>(packed);
  std::memset(to, 0, static_cast<size_t>(tile_packed_bytes(plan)));
  const int64_t c = s.in_c / s.groups, taps = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t o = 0; o < s.out_c; ++o)
    for (int64_t i = 0; i < c; ++i)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const uint16_t w = bf16(weights[(o * c + i) * taps + tap]);
        std::memcpy(to + tile_weight_at(plan, o, tap * c + i), &w, sizeof(w));
      }
}

/// Of the runs that weights are cut by; these depend on the image.
template <TileUnit kUnit>
int64_t form(const ConvShape& s) {
  std::vector<int64_t> offsets;
  const TileRuns runs = packing_of(s, kUnit, offsets).runs;
  const int64_t numbers[] = {runs.count, runs.length, runs.chunks_each, runs.chunk};
  return static_cast<int64_t>(hash64(std::as_bytes(std::span(numbers))));
}

template <TileUnit kUnit>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<Bf16Kernel<kUnit>>(shape, epilogue, packed, bias, threads);
}

}  // namespace

ConvTactic bf16_tiles_tactic() {
  constexpr auto unit = TileUnit::tiles;
  return {"bf16_tiles", refuses<unit>, packed_floats<unit>, pack<unit>, make<unit>, form<unit>};
}
ConvTactic bf16_dots_tactic() {
  constexpr auto unit = TileUnit::vectors;
  return {"bf16_dot", refuses<unit>, packed_floats<unit>, pack<unit>, make<unit>, form<unit>};
}

}  // namespace tenon::cpu
