#include <type_traits>

#include "backends/cpu/kernels/int8_bands.h"
#include "backends/cpu/kernels/int8_micro.h"
#include "backends/cpu/kernels/int8_outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// All of K over `tiles` tiles of R pixels. Sums of one tile lie over those of the last where nothing is added to them.
template <Int8Form kForm, int R, class Rows>
__attribute__((noinline)) void run_tiles(const Int8Plan& plan, const Int8Output& o, const Job& job, Finish finish,
                                         Rows windows, int64_t tiles, int32_t* sums, Outputs& outputs) {
  const int64_t run_bytes = plan.run_units * kBlock * 4, step = plan.run_block < plan.run_count ? R * kBlock : 0;
  int64_t run = 0;
  for (; plan.run_count - run > plan.run_block; run += plan.run_block) {
    const Runs runs{plan.runs + run, plan.run_block, plan.run_units};
    for (int64_t t = 0; t < tiles; ++t)
      multiply_units<kForm, R>(windows.from(t * R), runs, job.weights + run * run_bytes, run ? nullptr : job.start,
                               sums + t * step);
  }
  const Runs runs{plan.runs + run, plan.run_count - run, plan.run_units};
  for (int64_t t = 0; t < tiles; ++t, sums += step) {
    multiply_units<kForm, R>(windows.from(t * R), runs, job.weights + run * run_bytes, run ? nullptr : job.start, sums);
    finish(o, job, sums, kBlock, R, outputs);
  }
}

// The outputs [first, first + count) of blocks n0 to n1 of channels.
template <Int8Form kForm, class Rows>
void run_blocks(const Int8Plan& plan, const Int8Output& output, Rows windows, int64_t first, int64_t count, int64_t n0,
                int64_t n1, const uint8_t* residual, void* out, int32_t* sums) {
  const ConvShape& s = plan.shape;
  const PixelCursor cursor(s, first);
  const Finish finish = finish_of(output);
  const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
  const int64_t blocks = (group_out + kBlock - 1) / kBlock, out_size = output.inverse_scale ? 1 : 4;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
    const Rows shifted = windows.shifted(group * group_in * plan.number_bytes);
    Job job;
    job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
    job.at = n * kBlock;
    job.weights = plan.packed + n * plan.run_count * plan.run_units * kBlock * 4;
    job.start = plan.start + n * kBlock;
    job.residual = residual ? residual + channel : nullptr;
    job.out = static_cast<std::byte*>(out) + channel * out_size;
    Outputs outputs(s, s.out_w, cursor.image, cursor.y, cursor.x, residual);
    with_tiles(count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
      run_tiles<kForm, R>(plan, output, job, finish, shifted.from(done), tiles, sums, outputs);
    });
  }
}

template <Int8Form kForm>
void run(const Int8Plan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  using Element = std::conditional_t<kForm == Int8Form::words, int16_t, uint8_t>;
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t blocks = (s.out_c / s.groups + kBlock - 1) / kBlock * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = blocks * part_n / plan.channel_splits, n1 = blocks * (part_n + 1) / plan.channel_splits;
  const int64_t pixels = s.batch * s.out_h * s.out_w, all_tiles = (pixels + kTilePixels - 1) / kTilePixels;
  const int64_t p0 = smaller(pixels, all_tiles * part_m / plan.pixel_splits * kTilePixels);
  const int64_t p1 = smaller(pixels, all_tiles * (part_m + 1) / plan.pixel_splits * kTilePixels);
  if (n0 >= n1 || p0 >= p1) return;

  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  auto* const sums = reinterpret_cast<int32_t*>(own);
  auto* const list = reinterpret_cast<const std::byte**>(own + plan.sums_bytes);
  std::byte* const copies = own + plan.sums_bytes + plan.list_bytes;
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;

  const int64_t rounds = (p1 - p0 + plan.block_pixels - 1) / plan.block_pixels;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + (p1 - p0) * round / rounds, count = p0 + (p1 - p0) * (round + 1) / rounds - first;
    if (plan.pixels) {
      const auto* windows = reinterpret_cast<const std::byte*>(in) + first * plan.pitch;
      if (!plan.in_place) copy_pixels<Element>(plan, in, first, count, copies), windows = copies;
      run_blocks<kForm>(plan, output, PitchedRows{windows, plan.pitch}, first, count, n0, n1, residual, out, sums);
    } else {
      copy_bands<Element>(plan, in, first, count, copies, list);
      run_blocks<kForm>(plan, output, ListedRows{list, 0}, first, count, n0, n1, residual, out, sums);
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
    {run<Int8Form::words>, run<Int8Form::pairs>, run<kDot>},
    run_winograd8,
    run_depthwise8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
