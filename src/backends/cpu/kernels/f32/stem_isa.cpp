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
  int64_t kernel_h;
  const int64_t* taps;  // and of the first pixel of each tap of a kernel row in it
  int64_t row_taps;
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

// Calls f with where pixel x of each tap lies, in the order of the packed weights.
template <class F>
TENON_INLINE void each_tap(const StemJob& job, int64_t x, const F& f) {
  const int64_t* const stop = job.taps + job.row_taps;
  for (int64_t ky = 0; ky < job.kernel_h; ++ky) {
    const float* const row = job.rows + job.slots[ky] + x;
    for (const int64_t* tap = job.taps; tap != stop; ++tap) f(row + *tap);
  }
}

// `count` tiles of R pixels, the first one starting at pixel x.
template <int R>
__attribute__((noinline)) void stem_tiles(const StemJob& job, int64_t x, int64_t count) {
  for (int64_t t = 0; t < count; ++t, x += R) {
    Sums<R> sums;
    sums.clear();
    const float* b = job.panel;
    each_tap(
        job, x, [&](const float* a) __attribute__((always_inline)) {
          const Vec b0 = load(b), b1 = load(b + kLanes);
          TENON_UNROLL
          for (int i = 0; i < R; ++i) {
            const Vec v = set1(a[i]);
            add_product(sums.v[i][0], v, b0);
            add_product(sums.v[i][1], v, b1);
          }
          b += kBlock;
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
    const float* b = job.panel;
    each_tap(
        job, x, [&](const float* a) __attribute__((always_inline)) {
          const Vec w = load(b);
          TENON_UNROLL
          for (int i = 0; i < R; ++i) add_product(sums[i], set1(a[i]), w);
          b += kBlock;
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
  const float* b = job.panel;
  each_tap(
      job, x, [&](const float* a) __attribute__((always_inline)) {
        Vec v[kVectors];
        TENON_UNROLL
        for (int i = 0; i < kVectors; ++i) v[i] = load(a + i * kLanes);
        TENON_UNROLL
        for (int o = 0; o < kOut; ++o) {
          const Vec w = set1(b[o]);
          TENON_UNROLL
          for (int i = 0; i < kVectors; ++i) add_product(sums[o][i], v[i], w);
        }
        b += StemPlan::most_by_pixels;
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

// Copies what windows of row y of an image see and is not there yet, and tells where.
void fill_slots(const StemPlan& plan, const float* in, int64_t image, int64_t y, float* rows, int64_t* held,
                int64_t* slots) {
  const ConvShape& s = plan.shape;
  const int64_t row_floats = s.stride_w * plan.phase, slot_floats = s.in_c * row_floats;
  for (int ky = 0; ky < s.kernel_h; ++ky) {
    const int64_t iy = y * s.stride_h - s.pad_top + int64_t{ky} * s.dilation_h;
    const bool inside = iy >= 0 && iy < s.in_h;
    const int64_t slot = inside ? iy % plan.slots : plan.slots, held_row = image * s.in_h + iy;
    slots[ky] = slot * slot_floats;
    if (!inside || held[slot] == held_row) continue;
    for (int64_t c = 0; c < s.in_c; ++c)
      fill_row(plan, in + image * plan.image + c * plan.channel + iy * plan.row, rows + slots[ky] + c * row_floats);
    held[slot] = held_row;
  }
}

void run(const StemPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  if (e.residual == Residual::none) residual = nullptr;
  const int64_t row_floats = s.stride_w * plan.phase, slot_floats = s.in_c * row_floats, zeros = plan.slots;
  float* const rows = reinterpret_cast<float*>(worker.workspace) + worker.id * plan.worker_floats;
  auto* const taps = reinterpret_cast<int64_t*>(rows + round_up((plan.slots + 1) * slot_floats, 16));
  int64_t* const slots = taps + s.in_c * s.kernel_w;  // the row of each kernel row
  int64_t* const held = slots + s.kernel_h;           // the input row in each slot
  for (int64_t slot = 0; slot < plan.slots; ++slot) held[slot] = -1;
  for (int64_t i = 0; i < slot_floats; ++i) rows[zeros * slot_floats + i] = 0;
  int64_t* tap = taps;
  for (int64_t c = 0; c < s.in_c; ++c)
    for (int64_t kx = 0; kx < s.kernel_w; ++kx) {
      const int64_t column = kx * s.dilation_w;
      *tap++ = c * row_floats + column % s.stride_w * plan.phase + column / s.stride_w;
    }
  StemJob job{};
  job.rows = rows, job.slots = slots, job.kernel_h = s.kernel_h, job.taps = taps, job.row_taps = s.in_c * s.kernel_w;
  job.epilogue = &e;
  job.out_pixel = s.out_pixel;
  job.res_pixel = s.res_pixel;
  const int64_t all = s.batch * s.out_h, end = all * (worker.id + 1) / worker.count;
  for (int64_t row = all * worker.id / worker.count; row < end; ++row) {
    const int64_t image = row / s.out_h, y = row % s.out_h;
    fill_slots(plan, in, image, y, rows, held, slots);
    for (int64_t n = 0; n < s.out_c; n += kBlock) {
      job.panel = plan.packed + n * plan.k;
      job.bias = plan.bias + n;
      job.slopes = e.slopes + n;
      job.channels = static_cast<int>(smaller(kBlock, s.out_c - n));
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

}  // namespace

extern const StemOps stem_ops;
const StemOps stem_ops = {kBlock, kTilePixels, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
