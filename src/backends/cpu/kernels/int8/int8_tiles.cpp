// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_tiles.h"

#include <vector>

#include "backends/cpu/kernels/int8_packing.h"
#include "backends/cpu/kernels/int8/int8_support.h"
#include "backends/cpu/kernels/parts.h"

namespace tenon::cpu {

namespace {

class Int8TilesKernel final : public Int8Kernel {
 public:
  Int8TilesKernel(const Int8Conv& conv, int threads) : lists_(std::make_shared<Int8Lists>(conv, kTileBlock)) {
    plan_.output = lists_->output();
    fit(conv.shape, threads);
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(group_out(s), kTileBlock), c = group_in(s), taps = int64_t{s.kernel_h} * s.kernel_w;
    const auto fill = [&](std::byte* bytes, int32_t* start) {
      for (int64_t o = 0; o < s.out_c; ++o)
        for (int64_t i = 0; i < c; ++i)
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int16_t w = conv.weights[(o * c + i) * taps + tap];
            bytes[tile_weight_at(plan_, o, tap * c + i)] = static_cast<std::byte>(w);
            start[o / group_out(s) * padded + o % group_out(s)] -= w;
          }
    };
    static const char tactic = 0;
    const TileRuns& runs = plan_.runs;
    packed_ = packed_int8(conv, &tactic, static_cast<size_t>(tile_packed_bytes(plan_)),
                          static_cast<size_t>(s.groups * padded),
                          {runs.count, runs.length, runs.chunks_each, runs.chunk}, fill);
    plan_.packed = packed_->bytes.data();
    plan_.start = packed_->start.data();
  }

  std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Int8TilesKernel>(*this);
    other->fit(shape, threads);
    const TileRuns &mine = plan_.runs, &its = other->plan_.runs;
    const bool alike = mine.count == its.count && mine.length == its.length && mine.chunk == its.chunk &&
                       mine.chunks_each == its.chunks_each;
    return alike ? std::move(other) : nullptr;
  }
  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_->bytes.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
           const Worker& worker) const override {
    Int8TilePlan plan = plan_;
    plan.in_zero = in_zero;
    each_part(worker, plan.pixel_splits * plan.channel_splits,
              [&](const Worker& part) { amx::run_int8_tiles(plan, in, residual, out, part); });
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    TilePlan plan{.packed = plan_.packed};
    plan_tiles(plan, shape, TileUnit::tiles, 1, plan_.output.epilogue.residual != Residual::none, threads, offsets_);
    static_cast<TilePlan&>(plan_) = plan;
  }

  std::shared_ptr<const Int8Lists> lists_;
  Int8TilePlan plan_{};
  std::shared_ptr<const Int8Packed> packed_;
  std::vector<int64_t> offsets_;
};

}  // namespace

Reason refuses_tiles(const Int8Conv& conv) {
  if (const Reason reason = refuses_bytes(conv)) return reason;
  const ConvShape& s = conv.shape;
  if (s.in_c == 0 || s.out_c == 0 || s.out_h == 0 || s.out_w == 0) return Reason::empty;
  return s.groups > 1 && group_out(s) < 8 ? Reason(Reason::group, "half a tile of channels") : Reason();
}

std::unique_ptr<Int8Kernel> make_tiles(const Int8Conv& conv, Isa, int threads) {
  return std::make_unique<Int8TilesKernel>(conv, threads);
}

}  // namespace tenon::cpu
