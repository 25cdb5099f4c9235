// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/stem.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"
#include "backends/cpu/kernels/f32/turn.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct StemJob {
  const float* rows;
  const int64_t* slots;  // offset of the row in rows that each kernel row sees
  int64_t first_row, stop_row;  // kernel rows inside the image
  const int64_t* taps;  // and of the first pixel of each tap of a kernel row in it
  int64_t row_taps;
  int64_t first_tap, stop_tap;  // those of frames that are there
  const float* panel;
  const float* bias;
  const float* slopes;
  const float* residual;
  float* out;
  const Epilogue* epilogue;
  int64_t out_pixel, res_pixel;
  int channels;
  bool in_registers;
};

// Calls f with where pixel x of each tap lies, and its kStep weights.
template <int kStep, class F>
TENON_INLINE void each_tap(const StemJob& job, int64_t x, const F& f) {
  const int64_t *const first = job.taps + job.first_tap, *const stop = job.taps + job.stop_tap;
  for (int64_t ky = job.first_row; ky < job.stop_row; ++ky) {
    const float* const row = job.rows + job.slots[ky] + x;
    const float* b = job.panel + (ky * job.row_taps + job.first_tap) * kStep;
    for (const int64_t* tap = first; tap != stop; ++tap, b += kStep) f(row + *tap, b);
  }
}

// `count` tiles of R pixels, the first one starting at pixel x.
template <int R>
__attribute__((noinline)) void stem_tiles(const StemJob& job, int64_t x, int64_t count) {
  for (int64_t t = 0; t < count; ++t, x += R) {
    Sums<R> sums;
    sums.clear();
    each_tap<kBlock>(
        job, x, [&](const float* a, const float* b) __attribute__((always_inline)) {
          const Vec b0 = load(b), b1 = load(b + kLanes);
          TENON_UNROLL
          for (int i = 0; i < R; ++i) {
            const Vec v = set1(a[i]);
            add_product(sums.v[i][0], v, b0);
            add_product(sums.v[i][1], v, b1);
          }
        });
    sums.add_bias(job.bias);
    float* out = job.out + x * job.out_pixel;
    if (job.in_registers) {
      const Vec low = set1(job.epilogue->alpha), high = set1(job.epilogue->beta);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        store(out + i * job.out_pixel, min(high, max(low, sums.v[i][0])));
        store(out + i * job.out_pixel + kLanes, min(high, max(low, sums.v[i][1])));
      }
      continue;
    }
    alignas(64) float scratch[R * kBlock];
    int64_t out_at[R], residual_at[R];
    for (int i = 0; i < R; ++i) {
      out_at[i] = i * job.out_pixel;
      residual_at[i] = (x + i) * job.res_pixel;
    }
    sums.store_to(scratch, kBlock);
    finish_tile(scratch, R, job.channels, *job.epilogue, job.slopes, job.residual, residual_at, out, out_at);
  }
}

// The same of at most kLanes channels.
template <int R>
__attribute__((noinline)) void stem_half_tiles(const StemJob& job, int64_t x, int64_t count) {
  for (int64_t t = 0; t < count; ++t, x += R) {
    Vec sums[R];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) sums[i] = zero();
    each_tap<kBlock>(
        job, x, [&](const float* a, const float* b) __attribute__((always_inline)) {
          const Vec w = load(b);
          TENON_UNROLL
          for (int i = 0; i < R; ++i) add_product(sums[i], set1(a[i]), w);
        });
    const Vec bias = load(job.bias);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) sums[i] = add(sums[i], bias);
    float* out = job.out + x * job.out_pixel;
    if (job.in_registers) {
      const Vec low = set1(job.epilogue->alpha), high = set1(job.epilogue->beta);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) store(out + i * job.out_pixel, min(high, max(low, sums[i])));
      continue;
    }
    alignas(64) float scratch[R * kBlock];
    int64_t out_at[R], residual_at[R];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      out_at[i] = i * job.out_pixel;
      residual_at[i] = (x + i) * job.res_pixel;
      store(scratch + i * kBlock, sums[i]);
    }
    finish_tile(scratch, R, job.channels, *job.epilogue, job.slopes, job.residual, residual_at, out, out_at);
  }
}

// All pixels of a row, in tiles of as many or one fewer.
void stem_row(const StemJob& job, int64_t pixels, bool half) {
  const int64_t most = half ? kHalfPixels : kTilePixels;
  const int64_t count = (pixels + most - 1) / most, large = pixels % count;
  const int small = static_cast<int>(pixels / count);
  const auto tiles = [&](int size, int64_t x, int64_t number) {
    if (half) {
      with_rows<kHalfPixels>(
          size, [&]<int R>() __attribute__((always_inline)) { stem_half_tiles<R>(job, x, number); });
    } else {
      with_rows(
          size, [&]<int R>() __attribute__((always_inline)) { stem_tiles<R>(job, x, number); });
    }
  };
  if (large) tiles(small + 1, 0, large);
  tiles(small, large * (small + 1), count - large);
}

// kVectors vectors of pixels from x on, the first `pixels` of which are stored, of up to kOut output channels.
template <int kOut, int kVectors>
__attribute__((noinline)) void stem_pixels(const StemJob& job, int64_t x, int64_t pixels) {
  constexpr int kWide = kVectors * kLanes;
  Vec sums[kOut][kVectors];
  TENON_UNROLL
  for (int o = 0; o < kOut; ++o) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) sums[o][i] = zero();
  }
  each_tap<StemPlan::most_by_pixels>(
      job, x, [&](const float* a, const float* b) __attribute__((always_inline)) {
        Vec v[kVectors];
        TENON_UNROLL
        for (int i = 0; i < kVectors; ++i) v[i] = load(a + i * kLanes);
        TENON_UNROLL
        for (int o = 0; o < kOut; ++o) {
          const Vec w = set1(b[o]);
          TENON_UNROLL
          for (int i = 0; i < kVectors; ++i) add_product(sums[o][i], v[i], w);
        }
      });
  alignas(64) float planes[kOut * kWide], scratch[kWide * kBlock] = {};
  TENON_UNROLL
  for (int o = 0; o < kOut; ++o) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) store(planes + o * kWide + i * kLanes, add(sums[o][i], set1(job.bias[o])));
  }
  for (int o = 0; o < kOut; o += 4)
    for (int i = 0; i < kWide; i += 4) turn_four(scratch + i * kBlock + o, kBlock, planes + o * kWide + i, kWide);
  int64_t out_at[kTilePixels], residual_at[kTilePixels];
  for (int i = 0; i < kTilePixels; ++i) out_at[i] = i * job.out_pixel, residual_at[i] = i * job.res_pixel;
  for (int64_t i = 0; i < pixels; i += kTilePixels)
    finish_tile(scratch + i * kBlock, static_cast<int>(smaller(kTilePixels, pixels - i)), job.channels, *job.epilogue,
                job.slopes, job.residual ? job.residual + (x + i) * job.res_pixel : nullptr, residual_at,
                job.out + (x + i) * job.out_pixel, out_at);
}

// All pixels of a row, in equal parts of as many vectors as there are registers for.
template <int kOut>
void stem_row_by_pixels(const StemJob& job, int64_t pixels) {
  constexpr int64_t most = kLanes == 16 ? 3 : kOut <= 4 ? 2 : 1;
  const int64_t vectors = (pixels + kLanes - 1) / kLanes, parts = (vectors + most - 1) / most;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = vectors * part / parts, count = vectors * (part + 1) / parts - first, x = first * kLanes,
                  left = smaller(pixels - x, count * kLanes);
    if (count == 1) stem_pixels<kOut, 1>(job, x, left);
    if constexpr (most >= 2)
      if (count == 2) stem_pixels<kOut, 2>(job, x, left);
    if constexpr (most >= 3)
      if (count == 3) stem_pixels<kOut, 3>(job, x, left);
  }
}

// Columns [first, stop) of all four phases of a row; `from` is that of column 0 of the first phase.
void fill_four_phases(const float* from, float* to, int64_t phase, int64_t first, int64_t stop) {
  int64_t i = first;
  for (; i + 4 <= stop; i += 4) turn_four(to + i, phase, from + 4 * i, 4);
  for (; i < stop; ++i)
    for (int64_t p = 0; p < 4; ++p) to[p * phase + i] = from[4 * i + p];
}

// One input row with its padding, split into phases.
void fill_row(const StemPlan& plan, const float* row, float* to) {
  const ConvShape& s = plan.shape;
  const int64_t stride = s.stride_w, pad = s.pad_left;
  // Columns that all four phases have.
  const int64_t whole = stride == 4 ? (pad + 3) / 4 : 0,
                whole_stop = stride == 4 ? smaller(plan.phase, (s.in_w + pad) / 4) : 0;
  if (whole < whole_stop) fill_four_phases(row - pad, to, plan.phase, whole, whole_stop);
  for (int64_t p = 0; p < stride; ++p, to += plan.phase) {
    // to[i] is input column i * stride + p - pad.
    const int64_t first = p >= pad ? 0 : smaller(plan.phase, (pad - p + stride - 1) / stride);
    const int64_t columns = s.in_w + pad - p;
    const int64_t stop = columns <= 0 ? first : smaller(plan.phase, (columns + stride - 1) / stride);
    const float* from = row + p - pad;
    for (int64_t i = 0; i < first; ++i) to[i] = 0;
    if (stride == 1) {
      for (int64_t i = first; i < stop; ++i) to[i] = from[i];
    } else if (stride == 2) {
      for (int64_t i = first; i < stop; ++i) to[i] = from[2 * i];
    } else if (whole < whole_stop) {
      for (int64_t i = first; i < whole; ++i) to[i] = from[4 * i];
      for (int64_t i = whole_stop; i < stop; ++i) to[i] = from[4 * i];
    } else {
      for (int64_t i = first; i < stop; ++i) to[i] = from[stride * i];
    }
    for (int64_t i = stop > first ? stop : first; i < plan.phase; ++i) to[i] = 0;
  }
}

// What a worker keeps: rows, where taps of a kernel row lie in them, which rows its kernel rows are and the slots hold.
struct Held {
  float* rows;
  int64_t *taps, *slots, *rows_held;
};

// `rows_floats`: of all slots. No slot holds a row yet.
Held held_by(const StemPlan& plan, const Worker& worker, int64_t rows_floats) {
  const ConvShape& s = plan.shape;
  Held held{};
  held.rows = reinterpret_cast<float*>(worker.workspace) + worker.id * plan.worker_floats;
  held.taps = reinterpret_cast<int64_t*>(held.rows + round_up(rows_floats, 16));
  held.slots = held.taps + s.in_c * s.kernel_w;
  held.rows_held = held.slots + s.kernel_h;
  for (int64_t slot = 0; slot < plan.slots; ++slot) held.rows_held[slot] = -1;
  return held;
}

// Where taps of `channels` channels of a kernel row lie; returns how many there are.
int64_t list_taps(const StemPlan& plan, int64_t channels, int64_t* taps) {
  const ConvShape& s = plan.shape;
  int64_t* tap = taps;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kx = 0; kx < s.kernel_w; ++kx) {
      const int64_t column = kx * s.dilation_w;
      *tap++ = c * s.stride_w * plan.phase + column % s.stride_w * plan.phase + column / s.stride_w;
    }
  return tap - taps;
}

// Finds the kernel rows of output row y that lie in the image and their slots; calls fill(row of the image, slot) for
// what is not there yet. `image` tells rows of images apart.
template <class F>
void fill_slots(const StemPlan& plan, const Held& held, int64_t image, int64_t y, int64_t slot_floats, StemJob& job,
                const F& fill) {
  const ConvShape& s = plan.shape;
  job.first_row = job.stop_row = 0;
  for (int ky = 0; ky < s.kernel_h; ++ky) {
    const int64_t iy = y * s.stride_h - s.pad_top + int64_t{ky} * s.dilation_h;
    if (iy < 0 || iy >= s.in_h) continue;
    if (job.stop_row == 0) job.first_row = ky;
    job.stop_row = ky + 1;
    const int64_t slot = iy % plan.slots, row = image * s.in_h + iy;
    held.slots[ky] = slot * slot_floats;
    if (held.rows_held[slot] == row) continue;
    fill(iy, slot);
    held.rows_held[slot] = row;
  }
}

// Slices [first, stop) of an image whose frames are there.
void slices_of(const StemPlan& plan, int64_t image, int64_t& first, int64_t& stop) {
  const ConvShape& s = plan.shape;
  first = 0, stop = s.slices;
  if (s.frame == 0) return;
  const int64_t frame = image * (s.in_image / s.frame) - s.frames_before, step = s.in_slice / s.frame;
  while (first < stop && frame + first * step < 0) ++first;
  while (first < stop && frame + (stop - 1) * step >= s.frames) --stop;
}

// Sets what a row of a block of output channels from n on needs of the plan, but for what it reads and writes.
void set_block(const StemPlan& plan, const Epilogue& e, int64_t n, StemJob& job) {
  job.bias = plan.bias + n;
  job.slopes = e.slopes + n;
  job.channels = static_cast<int>(smaller(kBlock, plan.shape.out_c - n));
}

void run(const StemPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  if (e.residual == Residual::none) residual = nullptr;
  const int64_t row_floats = s.stride_w * plan.phase, slot_floats = s.in_c * row_floats;
  const Held held = held_by(plan, worker, plan.slots * slot_floats);
  StemJob job{};
  job.row_taps = list_taps(plan, s.in_c, held.taps);
  job.rows = held.rows, job.slots = held.slots, job.taps = held.taps;
  job.epilogue = &e;
  job.out_pixel = s.out_pixel;
  job.res_pixel = s.res_pixel;
  const int64_t all = s.batch * s.out_h, end = all * (worker.id + 1) / worker.count;
  for (int64_t row = all * worker.id / worker.count; row < end; ++row) {
    const int64_t image = row / s.out_h, y = row % s.out_h;
    int64_t first, stop;
    slices_of(plan, image, first, stop);
    job.first_tap = first * plan.channels * s.kernel_w, job.stop_tap = stop * plan.channels * s.kernel_w;
    const float* const from = in + image * plan.image - s.frames_before * s.frame;
    fill_slots(plan, held, image, y, slot_floats, job, [&](int64_t iy, int64_t slot) {
      for (int64_t c = first * plan.channels; c < stop * plan.channels; ++c)
        fill_row(plan, from + c / plan.channels * s.in_slice + c % plan.channels * plan.channel + iy * plan.row,
                 held.rows + slot * slot_floats + c * row_floats);
    });
    for (int64_t n = 0; n < s.out_c; n += kBlock) {
      set_block(plan, e, n, job);
      job.panel = plan.packed + n * plan.k;
      const bool half = job.channels <= kLanes;
      job.in_registers = job.channels == (half ? kLanes : kBlock) && is_clamp(e.act) && !residual;
      job.residual = residual ? residual + image * s.res_image + y * s.res_row + n : nullptr;
      job.out = out + image * s.out_image + y * s.out_row + n;
      if (!plan.by_pixels) stem_row(job, s.out_w, half);
      else if (s.out_c <= 4) stem_row_by_pixels<4>(job, s.out_w);
      else stem_row_by_pixels<8>(job, s.out_w);
    }
  }
}

// Rows of six frames behind each other, combined in place as points 0, 1, -1, 2, -2 and infinity want them.
void combine_frames(float* rows, int64_t pitch, int64_t count) {
  const Vec two = set1(2.f), four = set1(4.f), five = set1(5.f);
  for (int64_t i = 0; i < count; i += kLanes) {
    Vec d[FramesStem::points];
    TENON_UNROLL
    for (int p = 0; p < FramesStem::points; ++p) d[p] = load(rows + p * pitch + i);
    const Vec even = fnma(four, d[2], d[4]), odd = fnma(four, d[1], d[3]), e = sub(d[4], d[2]),
              o = mul(two, sub(d[3], d[1]));
    store(rows + i, fma(four, d[0], fnma(five, d[2], d[4])));
    store(rows + pitch + i, add(even, odd));
    store(rows + 2 * pitch + i, sub(even, odd));
    store(rows + 3 * pitch + i, add(e, o));
    store(rows + 4 * pitch + i, sub(e, o));
    store(rows + 5 * pitch + i, fma(four, d[1], fnma(five, d[3], d[5])));
  }
}

// What of a row of sums of points, `pitch` floats from one to the next, is one output frame; kLanes floats.
TENON_INLINE Vec sum_of_points(const float* sums, int64_t pitch, int64_t made) {
  Vec m[FramesStem::points];
  TENON_UNROLL
  for (int p = 0; p < FramesStem::points; ++p) m[p] = load(sums + p * pitch);
  const Vec one = made % 2 == 0 ? add(m[1], m[2]) : sub(m[1], m[2]);
  const Vec two = made % 2 == 0 ? add(m[3], m[4]) : sub(m[3], m[4]);
  if (made == 0) return add(m[0], add(one, two));
  if (made == 1) return fma(set1(2.f), two, one);
  if (made == 2) return fma(set1(4.f), two, one);
  return add(m[5], fma(set1(8.f), two, one));
}

// One output frame's row of a block of channels: where job says, of the sums of all points.
template <int64_t kMade>
void finish_frame(const StemJob& job, const float* sums, int64_t pixels, bool half) {
  alignas(64) float scratch[kTilePixels * kBlock];
  const int64_t pitch = pixels * kBlock;
  const Vec b0 = load(job.bias), b1 = load(job.bias + (half ? 0 : kLanes));
  for (int64_t x = 0; x < pixels; x += kTilePixels) {
    const int count = static_cast<int>(smaller(kTilePixels, pixels - x));
    int64_t out_at[kTilePixels], residual_at[kTilePixels];
    for (int i = 0; i < count; ++i) {
      out_at[i] = i * job.out_pixel, residual_at[i] = (x + i) * job.res_pixel;
      const float* from = sums + (x + i) * kBlock;
      store(scratch + i * kBlock, add(b0, sum_of_points(from, pitch, kMade)));
      if (!half) store(scratch + i * kBlock + kLanes, add(b1, sum_of_points(from + kLanes, pitch, kMade)));
    }
    finish_tile(scratch, count, job.channels, *job.epilogue, job.slopes, job.residual, residual_at,
                job.out + x * job.out_pixel, out_at);
  }
}

void finish_frame(const StemJob& job, const float* sums, int64_t pixels, bool half, int64_t made) {
  if (made == 0) finish_frame<0>(job, sums, pixels, half);
  else if (made == 1) finish_frame<1>(job, sums, pixels, half);
  else if (made == 2) finish_frame<2>(job, sums, pixels, half);
  else finish_frame<3>(job, sums, pixels, half);
}

// Row iy of all frames that four output frames from `image` on see, combined.
void fill_frames(const StemPlan& plan, const float* in, int64_t image, int64_t iy, float* to) {
  const ConvShape& s = plan.shape;
  const int64_t row_floats = s.stride_w * plan.phase, pitch = plan.channels * row_floats;
  for (int64_t p = 0; p < FramesStem::points; ++p) {
    const int64_t frame = image + p - s.frames_before;
    for (int64_t c = 0; c < plan.channels; ++c) {
      float* const row = to + p * pitch + c * row_floats;
      if (frame >= 0 && frame < s.frames) {
        fill_row(plan, in + frame * s.frame + c * plan.channel + iy * plan.row, row);
      } else {
        for (int64_t i = 0; i < row_floats; ++i) row[i] = 0;
      }
    }
  }
  combine_frames(to, pitch, pitch);
}

void run_frames(const StemPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue), plain = normalised(Epilogue{});
  if (e.residual == Residual::none) residual = nullptr;
  alignas(64) const float zeros[kBlock] = {};
  const int64_t point_floats = plan.channels * s.stride_w * plan.phase, slot_floats = FramesStem::points * point_floats;
  const Held held = held_by(plan, worker, plan.slots * slot_floats);
  float* const sums = held.rows + plan.worker_floats - round_up(FramesStem::points * s.out_w * kBlock, 16);
  StemJob sum{};
  sum.row_taps = sum.stop_tap = list_taps(plan, plan.channels, held.taps);
  sum.slots = held.slots, sum.taps = held.taps, sum.bias = zeros, sum.epilogue = &plain;
  sum.out_pixel = kBlock, sum.in_registers = true;
  StemJob job{};
  job.epilogue = &e, job.out_pixel = s.out_pixel, job.res_pixel = s.res_pixel;
  const int64_t groups = (s.batch + FramesStem::made - 1) / FramesStem::made;
  const int64_t all = groups * s.out_h, end = all * (worker.id + 1) / worker.count;
  for (int64_t row = all * worker.id / worker.count; row < end; ++row) {
    const int64_t image = row / s.out_h * FramesStem::made, y = row % s.out_h;
    fill_slots(plan, held, image, y, slot_floats, sum,
               [&](int64_t iy, int64_t slot) { fill_frames(plan, in, image, iy, held.rows + slot * slot_floats); });
    for (int64_t n = 0; n < s.out_c; n += kBlock) {
      set_block(plan, e, n, job);
      const bool half = job.channels <= kLanes;
      for (int64_t p = 0; p < FramesStem::points; ++p) {
        sum.rows = held.rows + p * point_floats;
        sum.panel = plan.packed + (n * FramesStem::points + p * kBlock) * plan.k;
        sum.out = sums + p * s.out_w * kBlock;
        stem_row(sum, s.out_w, half);
      }
      for (int64_t made = 0; made < smaller(FramesStem::made, s.batch - image); ++made) {
        job.residual = residual ? residual + (image + made) * s.res_image + y * s.res_row + n : nullptr;
        job.out = out + (image + made) * s.out_image + y * s.out_row + n;
        finish_frame(job, sums, s.out_w, half, made);
      }
    }
  }
}

}  // namespace

extern const StemOps stem_ops;
const StemOps stem_ops = {kBlock, kTilePixels, run, run_frames};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
