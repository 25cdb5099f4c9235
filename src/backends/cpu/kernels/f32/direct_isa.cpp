// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/direct.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"
#include "backends/cpu/kernels/f32/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using Segment = SegmentOf<float, kTilePixels>;
using PixelTile = PixelTileOf<kTilePixels>;

// Of the tiles of one pixel block.
struct Tables : TablesOf<float, kTilePixels> {
  float* partial;
};

constexpr bool kMasks = kLanes > 4;  // parts of vectors are loaded and stored at once

struct TileJob {
  const PixelTile* tiles;
  const Segment* const* ranges;
  int64_t range_pitch;
  int64_t shift;  // from the first group's channels to those of this one
  const float* weights;
  const char* next;  // panel
  int64_t panel_bytes;
  float* partial;
  const float* bias;
  const float* slopes;
  const float* residual;
  float* out;
  const Epilogue* epilogue;
  const float* low;  // of each channel
  float high;
  int channels;
  bool first, last, in_registers, is_clamp;
  bool few;  // at most eight channels behind the last multiple of 16
};

// Sums of a round's tiles and a block of output channels that await the rest of K.
int64_t partial_floats(const DirectPlan& plan) { return int64_t{plan.block_tiles} * kTilePixels * kBlock; }

size_t worker_bytes(const DirectPlan& plan) {
  const ConvShape& s = plan.shape;
  const int64_t blocks = (s.out_c / s.groups + kBlock - 1) / kBlock * s.groups;
  const int64_t kept = plan.k_together < plan.k_blocks ? (blocks + plan.channel_splits - 1) / plan.channel_splits : 1;
  return table_bytes<float, kTilePixels>(plan, plan.block_tiles) +
         round_up(kept * partial_floats(plan) * sizeof(float), 64);
}

Tables tables_at(const DirectPlan& plan, std::byte* p) {
  const size_t bytes = table_bytes<float, kTilePixels>(plan, plan.block_tiles);
  return {tables_in<float, kTilePixels>(plan, plan.block_tiles, p), reinterpret_cast<float*>(p + bytes)};
}

// Each tile fetches kFetch quarters of the next panel.
template <int R, bool kBy4, int kFetch>
__attribute__((noinline)) void run_tiles(const TileJob& job, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    Sums<R> sums;
    float* partial = job.partial + t * (kTilePixels * kBlock);
    if (job.first) {
      sums.clear();
    } else {
      sums.load_from(partial, kBlock);
    }
    const Segment* segment = job.ranges[t * job.range_pitch];
    const Segment* const stop = job.ranges[t * job.range_pitch + 1];
    const float* b = job.weights;
    const char* fetch = kFetch ? job.next + t * job.panel_bytes * kFetch / 4 : nullptr;
    for (; segment != stop; ++segment) {
      const float* a[R];
      TENON_UNROLL
      for (int i = 0; i < R; ++i) a[i] = segment->source[i] + job.shift;
      b += segment->skip * kBlock;
      b = accumulate<R, kBy4, kFetch>(sums, a, segment->length, b, fetch);
    }
    if (!job.last) {
      sums.store_to(partial, kBlock);
      continue;
    }
    sums.add_bias(job.bias);
    const PixelTile& tile = job.tiles[t];
    if (!job.in_registers) {
      sums.store_to(partial, kBlock);
      finish_tile(partial, R, job.channels, *job.epilogue, job.slopes, job.residual, tile.residual, job.out, tile.out);
      continue;
    }
    const int rest = job.channels - kLanes;
    if (job.residual) {
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        const float* r = job.residual + tile.residual[i];
        sums.v[i][0] = add(sums.v[i][0], load(r));
        sums.v[i][1] = add(sums.v[i][1], rest == kLanes ? load(r + kLanes) : load_n(r + kLanes, rest));
      }
    }
    const Vec low[] = {load(job.low), load(job.low + kLanes)}, high = set1(job.high);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      float* o = job.out + tile.out[i];
      const Vec last = min(high, max(low[1], sums.v[i][1]));
      store(o, min(high, max(low[0], sums.v[i][0])));
      if (rest == kLanes) store(o + kLanes, last);
      else store_n(o + kLanes, last, rest);
    }
  }
}

// Bias, residual, clamp and store of a block of at most kLanes channels.
template <int R>
TENON_INLINE void finish_half(const TileJob& job, const PixelTile& tile, const Vec (&sums)[R]) {
  const Vec low = load(job.low), high = set1(job.high), bias = load(job.bias);
  const bool whole = job.channels == kLanes;
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    Vec v = add(sums[i], bias);
    if (job.residual) {
      const float* r = job.residual + tile.residual[i];
      v = add(v, whole ? load(r) : load_n(r, job.channels));
    }
    v = min(high, max(low, v));
    if (whole) store(job.out + tile.out[i], v);
    else store_n(job.out + tile.out[i], v, job.channels);
  }
}

// The same for a last block of at most kLanes channels. `kTwo`: even and odd steps of K have sums of their own, so that
// one vector of channels still keeps the multipliers busy.
template <int R, bool kBy4, bool kTwo>
__attribute__((noinline)) void run_half_tiles(const TileJob& job, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    Vec even[R], odd[R];
    float* partial = job.partial + t * (kTilePixels * kBlock);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      even[i] = job.first ? zero() : load(partial + i * kBlock);
      odd[i] = zero();
    }
    const Segment* segment = job.ranges[t * job.range_pitch];
    const Segment* const stop = job.ranges[t * job.range_pitch + 1];
    const float* b = job.weights;
    for (; segment != stop; ++segment) {
      const float* a[R];
      TENON_UNROLL
      for (int i = 0; i < R; ++i) a[i] = segment->source[i] + job.shift;
      b += segment->skip * kBlock;
      const auto step = [&](Vec(&sums)[R], int64_t k) __attribute__((always_inline)) {
        const Vec w = load(b + k * kBlock);
        TENON_UNROLL
        for (int i = 0; i < R; ++i) add_product(sums[i], set1(a[i][k]), w);
      };
      const int64_t length = segment->length;
      int64_t k = 0;
      if constexpr (kBy4) {
        for (; k < length; k += 4) {
          step(even, k);
          step(kTwo ? odd : even, k + 1);
          step(even, k + 2);
          step(kTwo ? odd : even, k + 3);
        }
      } else {
        for (; k + 2 <= length; k += 2) {
          step(even, k);
          step(kTwo ? odd : even, k + 1);
        }
        if (k < length) step(even, k);
      }
      b += length * kBlock;
    }
    TENON_UNROLL
    for (int i = 0; kTwo && i < R; ++i) even[i] = add(even[i], odd[i]);
    const PixelTile& tile = job.tiles[t];
    if (job.last && job.in_registers) {
      finish_half<R>(job, tile, even);
      continue;
    }
    const Vec bias = job.last ? load(job.bias) : zero();
    TENON_UNROLL
    for (int i = 0; i < R; ++i) store(partial + i * kBlock, add(even[i], bias));
    if (job.last)
      finish_tile(partial, R, job.channels, *job.epilogue, job.slopes, job.residual, tile.residual, job.out, tile.out);
  }
}

template <bool kBy4>
void run_block(const TileJob& job, int64_t count, int64_t large, int small) {
  // Up to eight channels behind the last multiple of 16 have two sums each on every instruction set, the others one:
  // results do not depend on how wide vectors are. Nor on where tiles begin, as steps of four leave no odd ones.
  constexpr int kFew = 8;
  const auto halves = [&](const TileJob& part, bool two) __attribute__((always_inline)) {
    const auto run = [&]<bool kTwo>() __attribute__((always_inline)) {
      if (large)
        with_rows(
            small + 1, [&]<int R>() __attribute__((always_inline)) { run_half_tiles<R, kBy4, kTwo>(part, 0, large); });
      if (count > large)
        with_rows(
            small, [&]<int R>() __attribute__((always_inline)) { run_half_tiles<R, kBy4, kTwo>(part, large, count); });
    };
    if constexpr (kBy4) {
      if (two) return run.template operator()<true>();
    }
    run.template operator()<false>();
  };
  if (job.channels <= kLanes) return halves(job, job.few);
  const bool few = kLanes < kFew ? job.few : kLanes > kFew && job.channels - kLanes <= kFew;
  if (kBy4 && few) {
    TileJob part = job;
    part.channels = kLanes;
    part.in_registers = job.is_clamp;
    halves(part, kLanes < kFew);
    part = job;
    part.channels -= kLanes;
    part.weights += kLanes;
    part.bias += kLanes;
    part.slopes += kLanes;
    part.partial += kLanes;
    part.out += kLanes;
    part.low += kLanes;
    part.in_registers = job.is_clamp && (kMasks || part.channels == kLanes);
    if (part.residual) part.residual += kLanes;
    return halves(part, true);
  }
  // The first tiles of a panel fetch the next panel: a quarter each where there are four, so that memory keeps up.
  constexpr int kQuarters = kBy4 ? 1 : 4;
  const int64_t fetching = count < 4 ? 1 : 4 / kQuarters;
  const auto run = [&]<int R>(int64_t begin, int64_t end) __attribute__((always_inline)) {
    const int64_t middle = begin > fetching ? begin : end < fetching ? end : fetching;
    if (fetching == 1) {
      run_tiles<R, kBy4, 4>(job, begin, middle);
    } else {
      run_tiles<R, kBy4, kQuarters>(job, begin, middle);
    }
    run_tiles<R, kBy4, 0>(job, middle, end);
  };
  if (large)
    with_rows(
        small + 1, [&]<int R>() __attribute__((always_inline)) { run.template operator()<R>(0, large); });
  if (count > large)
    with_rows(
        small, [&]<int R>() __attribute__((always_inline)) { run.template operator()<R>(large, count); });
}

void run(const DirectPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
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

  const Tables tables = tables_at(plan, worker.workspace + worker.id * plan.worker_bytes);
  const bool by4 = group_in / s.slices % 4 == 0;
  TileJob job;
  job.tiles = tables.tiles;
  job.range_pitch = plan.k_blocks + 1;
  job.partial = tables.partial;
  const Epilogue epilogue = normalised(plan.epilogue);
  job.epilogue = &epilogue;
  const bool bounds = epilogue.act == expr::Id::Max;  // a clamp whose lower end each channel has of its own
  alignas(64) float lows[kBlock];
  for (float& low : lows) low = epilogue.alpha;
  job.high = bounds ? kInfinity : epilogue.beta;
  job.is_clamp = (bounds || is_clamp(epilogue.act)) && epilogue.residual != Residual::after;
  if (epilogue.residual == Residual::none) residual = nullptr;

  const int64_t my_tiles = (p1 - p0 + kTilePixels - 1) / kTilePixels;
  const int64_t rounds = (my_tiles + plan.block_tiles - 1) / plan.block_tiles;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + smaller(my_tiles * round / rounds * kTilePixels, p1 - p0);
    const int64_t last = p0 + smaller(my_tiles * (round + 1) / rounds * kTilePixels, p1 - p0);
    const int64_t count = (last - first + kTilePixels - 1) / kTilePixels;
    const int64_t large = (last - first) % count;
    const int small = static_cast<int>((last - first) / count);
    fill_tables<float, kTilePixels>(plan, tables, in, first, count, large, small);
    for (int part = 0; part < plan.k_blocks; part += plan.k_together) {
      const int end = part + plan.k_together < plan.k_blocks ? part + plan.k_together : plan.k_blocks;
      for (int64_t n = n0; n < n1; ++n) {
        const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
        job.shift = group * group_in;
        job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
        job.few = group_out - channel % group_out / 16 * 16 <= 8;
        job.in_registers = job.is_clamp && (kMasks || job.channels == kBlock || job.channels == kLanes);
        job.bias = plan.bias + n * kBlock;
        job.slopes = epilogue.slopes + n * kBlock;
        job.low = bounds ? job.slopes : lows;
        job.residual = residual ? residual + channel : nullptr;
        job.out = out + channel;
        if (plan.k_together < plan.k_blocks) job.partial = tables.partial + (n - n0) * partial_floats(plan);
        for (int b = part; b < end; ++b) {
          const int64_t k0 = block_k(plan, b), k1 = block_k(plan, b + 1);
          job.ranges = tables.ranges + b;
          job.weights = plan.packed + (n * plan.k + k0) * kBlock;
          job.panel_bytes = (k1 - k0) * kBlock * static_cast<int64_t>(sizeof(float));
          job.next = reinterpret_cast<const char*>(job.weights) + job.panel_bytes;
          if (b + 1 == end && end - part < plan.k_blocks)
            job.next = reinterpret_cast<const char*>(plan.packed + ((n + 1) * plan.k + block_k(plan, part)) * kBlock);
          job.first = b == 0;
          job.last = b + 1 == plan.k_blocks;
          if (by4) {
            run_block<true>(job, count, large, small);
          } else {
            run_block<false>(job, count, large, small);
          }
        }
      }
    }
  }
}

// How a panel's numbers are loaded.
struct AsF32 {
  using Element = float;
  static TENON_INLINE Vec load_at(const float* p) { return load(p); }
};
struct AsF16 {
  using Element = uint16_t;
  static TENON_INLINE Vec load_at(const uint16_t* p) { return load_f16(p); }
};
struct AsBf16 {
  using Element = uint16_t;
  static TENON_INLINE Vec load_at(const uint16_t* p) { return load_bf16(p); }
};

// kPanels panels side by side, so that enough sums are in flight for one pixel.
template <class As, int kPanels>
void gemv_panels(const DirectPlan& plan, const float* in, const float* residual, float* out, int64_t panel) {
  Vec sums[kPanels][2];
  TENON_UNROLL
  for (int i = 0; i < kPanels; ++i) sums[i][0] = sums[i][1] = zero();
  const auto* b = reinterpret_cast<const typename As::Element*>(plan.packed) + panel * plan.k * kBlock;
  const int64_t pitch = plan.k * kBlock;
  for (int64_t k = 0; k < plan.k; ++k, b += kBlock) {
    const Vec x = set1(in[k]);
    TENON_UNROLL
    for (int i = 0; i < kPanels; ++i) {
      _mm_prefetch((const char*)(b + i * pitch) + 1024, _MM_HINT_T0);
      sums[i][0] = fma(x, As::load_at(b + i * pitch), sums[i][0]);
      sums[i][1] = fma(x, As::load_at(b + i * pitch + kLanes), sums[i][1]);
    }
  }
  alignas(64) float sum[kPanels * kBlock];
  TENON_UNROLL
  for (int i = 0; i < kPanels; ++i) {
    store(sum + i * kBlock, add(sums[i][0], load(plan.bias + (panel + i) * kBlock)));
    store(sum + i * kBlock + kLanes, add(sums[i][1], load(plan.bias + (panel + i) * kBlock + kLanes)));
  }
  const int64_t zero_at = 0;
  const Epilogue epilogue = normalised(plan.epilogue);
  for (int i = 0; i < kPanels; ++i) {
    const int64_t channel = (panel + i) * kBlock;
    finish_tile(sum + i * kBlock, 1, static_cast<int>(smaller(kBlock, plan.shape.out_c - channel)), epilogue,
                epilogue.slopes + channel, residual ? residual + channel : nullptr, &zero_at, out + channel, &zero_at);
  }
}

template <class As>
void gemv(const DirectPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const int64_t panels = (plan.shape.out_c + kBlock - 1) / kBlock;
  int64_t n = panels * worker.id / worker.count;
  const int64_t end = panels * (worker.id + 1) / worker.count;
  for (int64_t image = 0; image < plan.shape.batch; ++image) {
    const float* x = in + image * plan.shape.in_image;
    float* y = out + image * plan.shape.out_image;
    const float* r = residual ? residual + image * plan.shape.res_image : nullptr;
    int64_t i = n;
    for (; i + 4 <= end; i += 4) gemv_panels<As, 4>(plan, x, r, y, i);
    for (; i < end; ++i) gemv_panels<As, 1>(plan, x, r, y, i);
  }
}

// The columns of one vector: half of a panel's products.
template <int R>
TENON_INLINE void half_panel(const float* const (&rows)[R], const float* panel, int64_t k, const float* bias, float* c,
                             int64_t ldc, int columns) {
  Vec sums[R];
  TENON_UNROLL
  for (int i = 0; i < R; ++i) sums[i] = zero();
  const auto step = [&](int64_t at) __attribute__((always_inline)) {
    const Vec b = load(panel + at * kBlock);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) add_product(sums[i], set1(rows[i][at]), b);
  };
  int64_t at = 0;
  for (; at + 4 <= k; at += 4) step(at), step(at + 1), step(at + 2), step(at + 3);
  for (; at < k; ++at) step(at);
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    const Vec v = bias ? add(sums[i], load(bias)) : sums[i];
    if (columns == kLanes) store(c + i * ldc, v);
    else store_n(c + i * ldc, v, columns);
  }
}

void gemm_panel(const float* a, int64_t lda, int64_t m, const float* panel, int64_t k, const float* bias, float* c,
                int64_t ldc, int columns) {
  const int64_t tiles = (m + kTilePixels - 1) / kTilePixels;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = m * t / tiles;
    with_rows(
        static_cast<int>(m * (t + 1) / tiles - first), [&]<int R>() __attribute__((always_inline)) {
          Sums<R> sums;
          sums.clear();
          const float* rows[R];
          TENON_UNROLL
          for (int i = 0; i < R; ++i) rows[i] = a + (first + i) * lda;
          if (columns <= kLanes) return half_panel<R>(rows, panel, k, bias, c + first * ldc, ldc, columns);
          const char* none_fetched = nullptr;
          if (k) accumulate<R, false, 0>(sums, rows, k, panel, none_fetched);
          if (bias) sums.add_bias(bias);
          if (columns == kBlock) {
            sums.store_to(c + first * ldc, ldc);
            return;
          }
          TENON_UNROLL
          for (int i = 0; i < R; ++i) {
            float* to = c + (first + i) * ldc;
            if (columns >= kLanes) store(to, sums.v[i][0]);
            else store_n(to, sums.v[i][0], columns);
            if (columns > kLanes) store_n(to + kLanes, sums.v[i][1], columns - kLanes);
          }
        });
  }
}

}  // namespace

extern const DirectOps direct_ops;
const DirectOps direct_ops = {kBlock,      kTilePixels, worker_bytes, run,
                              gemv<AsF32>, gemv<AsF16>, gemv<AsBf16>, gemm_panel};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
