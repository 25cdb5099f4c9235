#include <type_traits>

#include "backends/cpu/kernels/int8_micro.h"
#include "backends/cpu/kernels/int8_outputs.h"
#include "backends/cpu/kernels/int8_windows.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// All of K over `tiles` tiles of R pixels.
template <Int8Form kForm, int R>
__attribute__((noinline)) void run_tiles(const Int8Plan& plan, const Int8Output& o, const Job& job,
                                         Finish finish, const std::byte* windows, int64_t tiles, int32_t* sums,
                                         Outputs& outputs) {
  constexpr int64_t kUnit = kBlock * 4;
  int64_t unit = 0;
  for (; plan.units - unit > plan.unit_block; unit += plan.unit_block)
    for (int64_t t = 0; t < tiles; ++t)
      multiply_units<kForm, R>(windows + t * R * plan.pitch + unit * 4, plan.pitch, plan.unit_block,
                               job.weights + unit * kUnit, unit ? nullptr : job.start, sums + t * R * kBlock);
  for (int64_t t = 0; t < tiles; ++t, windows += R * plan.pitch, sums += R * kBlock) {
    multiply_units<kForm, R>(windows + unit * 4, plan.pitch, plan.units - unit, job.weights + unit * kUnit,
                             unit ? nullptr : job.start, sums);
    finish(o, job, sums, kBlock, R, outputs);
  }
}

size_t worker_bytes(const Int8Plan& plan) {
  return (plan.in_place ? 0 : round_up(plan.block_pixels * plan.pitch + 64, 64)) +
         plan.block_pixels * kBlock * sizeof(int32_t);
}

template <Int8Form kForm>
void run(const Int8Plan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  using Element = std::conditional_t<kForm == Int8Form::words, int16_t, uint8_t>;
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
  const int64_t blocks = (group_out + kBlock - 1) / kBlock, all_blocks = blocks * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = all_blocks * part_n / plan.channel_splits, n1 = all_blocks * (part_n + 1) / plan.channel_splits;
  const int64_t pixels = s.batch * s.out_h * s.out_w, all_tiles = (pixels + kTilePixels - 1) / kTilePixels;
  const int64_t p0 = smaller(pixels, all_tiles * part_m / plan.pixel_splits * kTilePixels);
  const int64_t p1 = smaller(pixels, all_tiles * (part_m + 1) / plan.pixel_splits * kTilePixels);
  if (n0 >= n1 || p0 >= p1) return;

  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  auto* const sums = reinterpret_cast<int32_t*>(own);
  auto* const copies = reinterpret_cast<std::byte*>(sums + plan.block_pixels * kBlock);
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;
  const int64_t out_size = output.inverse_scale ? 1 : 4;
  const Finish finish = finish_of(output);

  const int64_t rounds = (p1 - p0 + plan.block_pixels - 1) / plan.block_pixels;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + (p1 - p0) * round / rounds, count = p0 + (p1 - p0) * (round + 1) / rounds - first;
    const PixelCursor cursor(s, first);
    const std::byte* windows = copies;
    int64_t copied = -1;
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
      if (plan.in_place) windows = reinterpret_cast<const std::byte*>(in) + first * plan.pitch + group * group_in;
      else if (group != copied)
        copy_windows<Element>(s, plan.in_zero, in + group * group_in, first, count, plan.pitch, copies);
      copied = group;
      Job job;
      job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
      job.at = n * kBlock;
      job.weights = plan.packed + n * plan.units * kBlock * 4;
      job.start = plan.start + n * kBlock;
      job.residual = residual ? residual + channel : nullptr;
      job.out = static_cast<std::byte*>(out) + channel * out_size;
      Outputs outputs(s, s.out_w, cursor.image, cursor.y, cursor.x, residual);
      with_tiles(count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
        run_tiles<kForm, R>(plan, output, job, finish, windows + done * plan.pitch, tiles, sums, outputs);
      });
    }
  }
}

#ifdef __AVX2__
constexpr Int8Form kDot = Int8Form::dot;
#else
constexpr Int8Form kDot = Int8Form::pairs;  // never chosen
#endif

}  // namespace

extern const Int8Ops int8_ops;
const Int8Ops int8_ops = {
    kBlock,
    kTilePixels,
    {{worker_bytes, run<Int8Form::words>}, {worker_bytes, run<Int8Form::pairs>}, {worker_bytes, run<kDot>}},
    run_winograd8,
    run_depthwise8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
