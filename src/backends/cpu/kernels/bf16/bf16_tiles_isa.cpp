// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/bf16/bf16.h"

#include "backends/cpu/kernels/bf16/bf16_copies.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/tile_blocks.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

class Bf16Tiles {
 public:
  static constexpr TileDot kDot = TileDot::bf16;

  Bf16Tiles(const Bf16Plan& plan, const float* in, const float* residual, float* out)
      : plan_(plan), copies_(plan, in), epilogue_(normalised(plan.epilogue)), residual_(residual), out_(out) {}
  bool has_residual() const { return epilogue_.residual != Residual::none; }

  void copy(const TileRound& round, int64_t group, std::byte* to) const { copies_.copy(round, group, to); }
  const std::byte* in_place(const TileRound&, int64_t) const { return nullptr; }  // f32 is never multiplied as it lies
  const void* prepare(const TileChannels& channels, int64_t) const { return plan_.bias + channels.block * kTileBlock; }

  void finish(const TileChannels& channels, int64_t, const std::byte* bytes, int64_t count, Outputs& outputs) const {
    const ConvShape& s = plan_.shape;
    with_activation(epilogue_.act, [&]<class Act>() {
      outputs.take(
          count, [&](int64_t at, int64_t n, int64_t out, int64_t residual) __attribute__((always_inline)) {
            for (int64_t i = 0; i < n; ++i)
              finish_pixel<Act>(reinterpret_cast<const float*>(bytes) + (at + i) * kTileBlock, channels.count,
                                epilogue_, epilogue_.slopes + channels.block * kTileBlock,
                                has_residual() ? residual_ + residual + i * s.res_pixel + channels.first : nullptr,
                                out_ + out + i * s.out_pixel + channels.first);
          });
    });
  }

 private:
  const Bf16Plan& plan_;
  const Bf16Copies copies_;
  const Epilogue epilogue_;
  const float* residual_;
  float* out_;
};

}  // namespace

void run_bf16_tiles(const Bf16Plan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  Bf16Tiles kernel(plan, in, residual, out);
  run_tiles(plan, kernel, worker);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
