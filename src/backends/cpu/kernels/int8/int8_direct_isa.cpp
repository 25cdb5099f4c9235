// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "backends/cpu/kernels/int8/int8_bands.h"
#include "backends/cpu/kernels/int8/int8_micro.h"
#include "backends/cpu/kernels/int8/int8_outputs.h"
#include "backends/cpu/kernels/int8/int8_panel.h"
#include "backends/cpu/kernels/int8/int8_pipelined.h"
#include "backends/cpu/kernels/int8/int8_three_columns.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Rows of a tile: of one vector of channels twice as many sums wait for each other where vectors have eight lanes.
template <Int8Form kForm, int kVectors>
constexpr int kTileRows = kLanes == 8 && kVectors == 1 && (kForm == Int8Form::dot || kForm == Int8Form::of_floats_dot)
                              ? 10
                              : kTilePixels;

// R places from `at` on, in tile `tile`.
template <Int8Form kForm, int R, int kVectors, class Rows>
TENON_INLINE void multiply_tile(const Job& job, Rows windows, const Panel& panel, int64_t run, int64_t at, int32_t* to,
                                int64_t tile) {
  multiply_units<kForm, R, kVectors>(windows.from(at), panel.runs, panel.weights, begin_sums<R>(job, run, at, to), to,
                                     panel.fetched(tile));
}

// The sums of all panels but the last over `count` pixels, if there are others; returns where the last begins.
template <Int8Form kForm, int kVectors, class Rows>
int64_t sum_panels(const Int8Plan& plan, const Job& job, Rows windows, int64_t count, int32_t* sums) {
  int64_t run = 0;
  for (; plan.run_count - run > plan.run_block; run += plan.run_block) {
    const Panel panel(plan, job, run);
    with_tiles<kTileRows<kForm, kVectors>>(
        count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
          for (int64_t t = 0; t < tiles; ++t)
            multiply_tile<kForm, R, kVectors>(job, windows, panel, run, done + t * R, sums + (done + t * R) * kBlock,
                                              t);
        });
  }
  return run;
}

// All of K over `count` pixels, for kVectors vectors of channels. Sums of one tile lie over those of the last where
// nothing is added to them.
template <Int8Form kForm, int kVectors, class Rows>
void run_tiles(const Int8Plan& plan, const Int8Output& o, const Job& job, Rows windows, int64_t count, int32_t* sums,
               Outputs& outputs) {
  const Finish finish = finish_of(o);
  alignas(64) std::byte ready[kReadyBytes];
  finish.prepare(o, job, ready);
  const int64_t run = sum_panels<kForm, kVectors>(plan, job, windows, count, sums);
  const Panel panel(plan, job, run);
  constexpr int kRows = kTileRows<kForm, kVectors>, kTiles = kTilesTogether * kTilePixels / kRows;
  with_tiles<kRows>(
      count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
        for (int64_t t = 0; t < tiles;) {
          int32_t* const first = run ? sums + (done + t * R) * kBlock : sums;
          int64_t places = 0;
          for (const int64_t end = smaller(tiles, t + kTiles); t < end; ++t, places += R)
            multiply_tile<kForm, R, kVectors>(job, windows, panel, run, done + t * R, first + places * kBlock, t);
          finish.run(o, ready, job, first, kBlock, places, outputs);
        }
      });
}

#ifdef __AVX512F__
// Whether sums can be finished while the next are multiplied: blocks are whole, outputs dense and their steps few.
bool can_pipeline(const Int8Plan& plan, const Int8Output& o, const Job& job, const Outputs& outputs) {
  return plan.run_units >= 4 && !job.shifts && o.inverse_scale && o.bounded && job.channels == kBlock &&
         outputs.dense() && o.epilogue.act == expr::Id::Clip && o.epilogue.residual != Residual::after;
}

// The same as run_tiles() where can_pipeline().
template <class Rows>
void run_pipelined(const Int8Plan& plan, const Int8Output& o, const Job& job, Rows windows, int64_t count,
                   int32_t* sums, Outputs& outputs) {
  const int64_t run = sum_panels<Int8Form::dot, 2>(plan, job, windows, count, sums);
  const Panel panel(plan, job, run);
  const ConvShape& s = plan.shape;
  for (int i = 0; !run && i < kPipelined; ++i) __builtin_memcpy(sums + i * kBlock, job.start, kBlock * sizeof(int32_t));
  const auto finish = [&]<class Act, Residual kResidual>() __attribute__((always_inline)) {
    const ByteRows<Act, kResidual> bytes(o, job);
    outputs.take(count, [&](int64_t, int64_t, int64_t out, int64_t residual) __attribute__((always_inline)) {
      with_tiles<kPipelined>(count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
        const Target to{reinterpret_cast<uint8_t*>(job.out) + out + done * s.out_pixel, s.out_pixel,
                        job.residual + residual + done * s.res_pixel, s.res_pixel};
        multiply_and_finish<R>(windows.from(done), panel.runs, panel.weights, panel.fetched(0),
                               run ? sums + done * kBlock : sums, run ? R * kBlock : 0, tiles, bytes, to);
      });
    });
  };
  const bool residual = o.epilogue.residual != Residual::none;
  const bool plain = are_plain_steps(o);
  if (plain && residual) finish.template operator()<PlainSteps, Residual::before>();
  else if (plain) finish.template operator()<PlainSteps, Residual::none>();
  else if (o.in_steps && residual) finish.template operator()<expr::Identity, Residual::before>();
  else if (o.in_steps) finish.template operator()<expr::Identity, Residual::none>();
  else if (residual) finish.template operator()<expr::Clip, Residual::before>();
  else finish.template operator()<expr::Clip, Residual::none>();
}
#endif

// What of its windows the outputs of a row, or those of an image, leave out, and how many outputs that row has left.
struct LeftOut {
  int64_t above, below, parts, places;
  LeftOut(const ConvShape& s, const PixelCursor& cursor) : places(s.out_w - cursor.x) {
    if (s.slices > 1) {
      const FramesOutside frames(s, cursor.image);
      above = frames.above, below = frames.below, parts = s.slices;
      places += (s.out_h - 1 - cursor.y) * s.out_w;
    } else {
      const RowsOutside rows(s, cursor.y);
      above = rows.above, below = rows.below, parts = s.kernel_h;
    }
  }
};

TENON_INLINE const int32_t* start_at(const Int8Plan& plan, const PixelCursor& cursor) {
  return plan.part_starts[plan.shape.slices > 1 ? cursor.image : cursor.y];
}

// Calls f(plan of the runs that count, first of them, first place, count, its column) for the parts of `count` outputs
// from `first` on whose windows leave out the same.
template <class F>
TENON_INLINE void each_part(const Int8Plan& plan, int64_t first, int64_t count, const F& f) {
  for (int64_t at = 0; at < count;) {
    const PixelCursor cursor(plan.shape, first + at);
    Int8Plan part = plan;
    int64_t n = count, run = 0;
    if (plan.part_starts) {
      const LeftOut left(plan.shape, cursor);
      const int64_t part_runs = plan.run_count / left.parts;
      part.start = start_at(plan, cursor);
      part.run_count -= (left.above + left.below) * part_runs;
      run = left.above * part_runs, part.runs += run;
      for (n = smaller(count - at, left.places); at + n < count;) {
        const PixelCursor next(plan.shape, first + at + n);
        if (start_at(plan, next) != part.start) break;
        n += smaller(count - at - n, LeftOut(plan.shape, next).places);
      }
    }
    f(part, run, at, n, cursor.x);
    at += n;
  }
}

// `count` places of one block of channels; the first is in column x.
template <Int8Form kForm, class Rows>
void run_job(const Int8Plan& plan, const Int8Output& output, const Job& job, Rows windows, int64_t count,
             [[maybe_unused]] int64_t x, int32_t* sums, Outputs& outputs) {
#ifdef __AVX512F__
  if constexpr (kForm == Int8Form::dot)
    if (can_pipeline(plan, output, job, outputs))
      return run_pipelined(plan, output, job, windows, count, sums, outputs);
#endif
#ifdef __AVX2__
  if constexpr (kForm == Int8Form::dot && std::is_same_v<Rows, ListedRows>)
    if (job.channels <= kLanes && are_columns(plan))
      return run_columns(plan, output, job, windows, count, x, sums, outputs);
#endif
  if (job.channels > kLanes) run_tiles<kForm, 2>(plan, output, job, windows, count, sums, outputs);
  else run_tiles<kForm, 1>(plan, output, job, windows, count, sums, outputs);
}

// The outputs [first, first + count) of blocks n0 to n1 of channels.
template <Int8Form kForm, class Rows>
void run_blocks(const Int8Plan& plan, const Int8Output& output, Rows windows, int64_t first, int64_t count, int64_t n0,
                int64_t n1, const uint8_t* residual, void* out, int32_t* sums, int32_t* window_sums) {
  const ConvShape& s = plan.shape;
  const PixelCursor cursor(s, first);
  const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
  const int64_t blocks = (group_out + kBlock - 1) / kBlock, out_size = output.inverse_scale ? 1 : 4;
  int64_t summed = -1;  // the group that the sums of windows are of
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
    const Rows shifted = windows.shifted(group * group_in * plan.number_bytes);
    Job job;
    job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
    job.at = n * kBlock;
    const std::byte* const weights = plan.packed + n * plan.run_count * plan.run_units * kBlock * 4;
    job.shifts = plan.shifts ? plan.shifts + n * kBlock : nullptr, job.windows = window_sums;
    if (plan.shifts && group != summed) sum_windows(plan, shifted, count, window_sums), summed = group;
    job.residual = residual ? residual + channel : nullptr;
    job.out = static_cast<std::byte*>(out) + channel * out_size;
    Outputs outputs(s, s.out_w, cursor.image, cursor.y, cursor.x, residual);
    each_part(plan, first, count, [&](const Int8Plan& part, int64_t run, int64_t at, int64_t places, int64_t x) {
      job.weights = weights + run * plan.run_units * kBlock * 4;
      job.start = part.start + n * kBlock;
      run_job<kForm>(part, output, job, shifted.from(at), places, x, sums, outputs);
    });
  }
}

template <Int8Form kForm>
void run(const Int8Plan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  using Number = std::conditional_t<kForm == Int8Form::int16, int16_t, uint8_t>;
  using Source = std::conditional_t<takes_floats(kForm), OfFloats, OfBytes<Number>>;
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t blocks = (s.out_c / s.groups + kBlock - 1) / kBlock * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = blocks * part_n / plan.channel_splits, n1 = blocks * (part_n + 1) / plan.channel_splits;
  const int64_t pixels = s.batch * s.out_h * s.out_w;
  const int64_t p0 = pixels * part_m / plan.pixel_splits, p1 = pixels * (part_m + 1) / plan.pixel_splits;
  if (n0 >= n1 || p0 >= p1) return;
  const auto* const x = reinterpret_cast<const typename Source::From*>(in) - s.frames_before * s.frame;

  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  auto* const sums = reinterpret_cast<int32_t*>(own);
  auto* const list = reinterpret_cast<const std::byte**>(own + plan.sums_bytes);
  auto* const window_sums = reinterpret_cast<int32_t*>(own + plan.sums_bytes + plan.list_bytes);
  std::byte* const copies = own + plan.sums_bytes + plan.list_bytes + plan.window_bytes;
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;

  const int64_t rounds = (p1 - p0 + plan.block_pixels - 1) / plan.block_pixels;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + (p1 - p0) * round / rounds, count = p0 + (p1 - p0) * (round + 1) / rounds - first;
    if (plan.pixels) {
      const auto* windows = reinterpret_cast<const std::byte*>(x) + first * plan.pitch;
      if (!plan.in_place) copy_pixels<Source>(plan, x, first, count, copies), windows = copies;
      run_blocks<kForm>(plan, output, PitchedRows{windows, plan.pitch}, first, count, n0, n1, residual, out, sums,
                        window_sums);
    } else {
      copy_bands<Source>(plan, x, first, count, copies, list);
      run_blocks<kForm>(plan, output, ListedRows{list, 0}, first, count, n0, n1, residual, out, sums, window_sums);
    }
  }
}

#ifdef __AVX2__
constexpr Int8Form kDot = Int8Form::dot, kDotOfFloats = Int8Form::of_floats_dot;
#else
constexpr Int8Form kDot = Int8Form::int8x2, kDotOfFloats = Int8Form::of_floats;  // never chosen
#endif

}  // namespace

extern const Int8Ops int8_ops;
const Int8Ops int8_ops = {
    kBlock,
    kTilePixels,
    {run<Int8Form::int16>, run<Int8Form::int8x2>, run<kDot>, run<Int8Form::of_floats>, run<kDotOfFloats>},
    run_winograd8,
    run_depthwise8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
