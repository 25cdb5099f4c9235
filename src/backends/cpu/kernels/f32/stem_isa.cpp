// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/stem.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct StemJob {
  const float* rows;
  const int64_t* taps;  // offset of each tap's first pixel in rows
  int64_t k;
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

// `count` tiles of R pixels, the first one starting at pixel x.
template <int R>
__attribute__((noinline)) void stem_tiles(const StemJob& job, int64_t x, int64_t count) {
  for (int64_t t = 0; t < count; ++t, x += R) {
    Sums<R> sums;
    sums.clear();
    const float* b = job.panel;
    const float* rows = job.rows + x;
    const int64_t* const stop = job.taps + job.k;
    for (const int64_t* tap = job.taps; tap != stop; ++tap, b += kBlock) {
      const float* a = rows + *tap;
      const Vec b0 = load(b), b1 = load(b + kLanes);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        const Vec v = set1(a[i]);
        add_product(sums.v[i][0], v, b0);
        add_product(sums.v[i][1], v, b1);
      }
    }
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
    const float* rows = job.rows + x;
    const int64_t* const stop = job.taps + job.k;
    for (const int64_t* tap = job.taps; tap != stop; ++tap, b += kBlock) {
      const float* a = rows + *tap;
      const Vec w = load(b);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) add_product(sums[i], set1(a[i]), w);
    }
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

// One input row with its padding, split into phases.
void fill_row(const StemPlan& plan, const float* row, float* to) {
  const ConvShape& s = plan.shape;
  const int64_t stride = s.stride_w, pad = s.pad_left;
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
    } else {
      for (int64_t i = first; i < stop; ++i) to[i] = from[stride * i];
    }
    for (int64_t i = stop > first ? stop : first; i < plan.phase; ++i) to[i] = 0;
  }
}

void run(const StemPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  if (e.residual == Residual::none) residual = nullptr;
  const int64_t row_floats = s.stride_w * plan.phase, slot_floats = s.in_c * row_floats, zeros = plan.slots;
  float* const rows = reinterpret_cast<float*>(worker.workspace) + worker.id * plan.worker_floats;
  auto* const taps = reinterpret_cast<int64_t*>(rows + round_up((plan.slots + 1) * slot_floats, 16));
  int64_t* const held = taps + plan.k;  // the input row in each slot
  for (int64_t slot = 0; slot < plan.slots; ++slot) held[slot] = -1;
  for (int64_t i = 0; i < slot_floats; ++i) rows[zeros * slot_floats + i] = 0;
  StemJob job;
  job.rows = rows;
  job.taps = taps;
  job.k = plan.k;
  job.epilogue = &e;
  job.out_pixel = s.out_pixel;
  job.res_pixel = s.res_pixel;
  const int64_t all = s.batch * s.out_h, end = all * (worker.id + 1) / worker.count;
  for (int64_t row = all * worker.id / worker.count; row < end; ++row) {
    const int64_t image = row / s.out_h, y = row % s.out_h;
    int64_t* tap = taps;
    for (int ky = 0; ky < s.kernel_h; ++ky) {
      const int64_t iy = y * s.stride_h - s.pad_top + int64_t{ky} * s.dilation_h;
      const bool inside = iy >= 0 && iy < s.in_h;
      const int64_t slot = inside ? iy % plan.slots : zeros, held_row = image * s.in_h + iy;
      if (inside && held[slot] != held_row) {
        for (int64_t c = 0; c < s.in_c; ++c) {
          fill_row(plan, in + ((image * s.in_c + c) * s.in_h + iy) * s.in_w,
                   rows + slot * slot_floats + c * row_floats);
        }
        held[slot] = held_row;
      }
      for (int64_t c = 0; c < s.in_c; ++c) {
        for (int64_t kx = 0; kx < s.kernel_w; ++kx) {
          const int64_t column = kx * s.dilation_w;
          *tap++ = slot * slot_floats + c * row_floats + column % s.stride_w * plan.phase + column / s.stride_w;
        }
      }
    }
    for (int64_t n = 0; n < s.out_c; n += kBlock) {
      job.panel = plan.packed + n * plan.k;
      job.bias = plan.bias + n;
      job.slopes = e.slopes + n;
      job.channels = static_cast<int>(smaller(kBlock, s.out_c - n));
      const bool half = job.channels <= kLanes;
      job.in_registers = job.channels == (half ? kLanes : kBlock) && is_clamp(e.act) && !residual;
      job.residual = residual ? residual + image * s.res_image + y * s.res_row + n : nullptr;
      job.out = out + image * s.out_image + y * s.out_row + n;
      stem_row(job, s.out_w, half);
    }
  }
}

}  // namespace

extern const StemOps stem_ops;
const StemOps stem_ops = {kBlock, kTilePixels, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
