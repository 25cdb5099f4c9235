// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_tiles.h"

#include "backends/cpu/kernels/int8/int8_outputs.h"
#include "backends/cpu/kernels/int8/int8_windows.h"
#include "backends/cpu/kernels/tile_blocks.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

class Int8Tiles {
 public:
  static constexpr TileDot kDot = TileDot::int8;

  Int8Tiles(const Int8TilePlan& plan, const uint8_t* in, const uint8_t* residual, void* out)
      : plan_(plan), output_(plan.output), in_(in), out_(static_cast<std::byte*>(out)) {
    output_.epilogue = normalised(output_.epilogue);
    residual_ = output_.epilogue.residual == Residual::none ? nullptr : residual;
    finish_ = finish_of(output_);
  }
  bool has_residual() const { return residual_ != nullptr; }

  void copy(const TileRound& round, int64_t group, std::byte* to) const {
    const ConvShape& s = plan_.shape;
    const int64_t c = s.in_c / s.groups;
    const uint8_t* const in = in_ + group * c;
    if (plan_.source == TileSource::windows)
      return copy_windows(s, plan_.in_zero, in, round.first, round.count, plan_.step, to);
    each_image_row(plan_, round, to, [&](int64_t y, std::byte* line, int64_t left, int64_t inside, int64_t right) {
      auto* const at = reinterpret_cast<uint8_t*>(line);
      if (y < 0) {
        copy_padding(at, (left + inside + right) * c, plan_.in_zero);
        return;
      }
      const uint8_t* const from = in + round.image * s.in_image + y * s.in_row;
      copy_padding(at, left * c, plan_.in_zero);
      if (s.in_pixel == c) {
        __builtin_memcpy(at + left * c, from, static_cast<size_t>(inside * c));
      } else {
        for (int64_t x = 0; x < inside; ++x) copy_taps(at + (left + x) * c, from + x * s.in_pixel, c, 0);
      }
      copy_padding(at + (left + inside) * c, right * c, plan_.in_zero);
    });
  }
  const std::byte* in_place(const TileRound& round, int64_t group) const {
    return reinterpret_cast<const std::byte*>(in_) + group * (plan_.shape.in_c / plan_.shape.groups) +
           round.first * plan_.step;
  }
  const void* prepare(const TileChannels& channels, int64_t place) {
    const int64_t at = channels.block * kTileBlock;
    int32_t* const start = start_ + place * kTileBlock;
    for (int c = 0; c < kTileBlock; ++c) start[c] = plan_.start[at + c] * plan_.in_zero;
    for (int c = 0; c < channels.count; c += kBlock)
      finish_.prepare(output_, {at + c, static_cast<int>(smaller(kBlock, channels.count - c))}, ready(place, c));
    return plan_.in_zero ? start : nullptr;
  }
  // kTileBlock is no more than one block of channels where there are tiles.
  void finish(const TileChannels& channels, int64_t place, const std::byte* sums, int64_t count, Outputs& outputs) {
    const Outputs begin = outputs;
    for (int c = 0; c < channels.count; c += kBlock) {
      Job job{};
      job.at = channels.block * kTileBlock + c;
      job.channels = static_cast<int>(smaller(kBlock, channels.count - c));
      job.residual = residual_ ? residual_ + channels.first + c : nullptr;
      job.out = out_ + (channels.first + c) * (output_.inverse_scale ? 1 : 4);
      if (c) outputs = begin;
      finish_.run(output_, ready(place, c), job, reinterpret_cast<const int32_t*>(sums) + c, kTileBlock, count,
                  outputs);
    }
  }

 private:
  const Int8TilePlan& plan_;
  Int8Output output_;
  const uint8_t *in_, *residual_;
  std::byte* out_;
  Finish finish_;
  std::byte* ready(int64_t place, int c) { return ready_ + (place * kTileBlock + c) / kBlock * kReadyBytes; }

  alignas(64) int32_t start_[kMostTogether * kTileBlock];
  alignas(64) std::byte ready_[kMostTogether * kTileBlock / kBlock * kReadyBytes];
};

}  // namespace

void run_int8_tiles(const Int8TilePlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                    const Worker& worker) {
  Int8Tiles kernel(plan, in, residual, out);
  run_tiles(plan, kernel, worker);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
