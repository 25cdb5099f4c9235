// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/bf16/bf16.h"
#include "backends/cpu/kernels/bf16/bf16_copies.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"
#include "backends/cpu/kernels/outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t kUnit = kTileBlock * 4;  // bytes of a block's weights for two inputs
constexpr int64_t kFirstFetched = 32 << 10;  // of weights while inputs are copied
static_assert(kTileBlock == kBlock);

// A block of output channels.
struct DotJob {
  const TilePlan& plan;
  const Epilogue& epilogue;
  const std::byte* weights;
  const float *bias, *slopes;
  int channels;
  bool in_registers;
  int64_t out_at[kTilePixels], residual_at[kTilePixels];  // of the outputs of a tile, from its first
  // Of the next block's weights: from where, how many quarters, and how many a tile.
  const std::byte* fetch;
  int64_t to_fetch, fetch_each;
};

// sum += the products of two pairs of bfloat16 in each lane, in place as add_product.
TENON_INLINE void add_bf16_products(Vec& sum, __m512i x, __m512i w) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}
TENON_INLINE __m512i load_weights(const std::byte* p) { return _mm512_loadu_si512(p); }
TENON_INLINE __m512i spread_pair(const std::byte* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return _mm512_set1_epi32(pair);
}

// Adds `units` pairs of each of R rows, `step` bytes apart, times their weights; returns those behind. A pointer serves
// three rows, as there are not enough registers for one each. `kBy4` needs units % 4 == 0; then so many quarters of the
// weights used are fetched from `fetch` on, which moves along.
template <int R, int kVectors, bool kBy4, int kFetch>
TENON_INLINE const std::byte* add_chunk(Vec (&sums)[R][kVectors], const std::byte* rows, int64_t step, int64_t units,
                                        const std::byte* weights, const std::byte*& fetch) {
  constexpr int kStep = kBy4 ? 4 : 1, kPointers = (R + 2) / 3;
  const std::byte* at[kPointers];
  TENON_UNROLL
  for (int i = 0; i < kPointers; ++i) at[i] = rows + 3 * i * step;
  const std::byte* const end = weights + units * kUnit;
  do {
    if constexpr (kBy4 && kFetch > 0) {
      TENON_UNROLL
      for (int64_t i = 0; i < kUnit * kFetch; i += 64) _mm_prefetch(fetch + i, _MM_HINT_T1);
      fetch += kUnit * kFetch;
    }
    TENON_UNROLL
    for (int unit = 0; unit < kStep; ++unit) {
      __m512i w[kVectors];
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) w[v] = load_weights(weights + unit * kUnit + v * 64);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        const __m512i x = spread_pair(at[i / 3] + i % 3 * step + unit * 4);
        TENON_UNROLL
        for (int v = 0; v < kVectors; ++v) add_bf16_products(sums[i][v], x, w[v]);
      }
    }
    TENON_UNROLL
    for (int i = 0; i < kPointers; ++i) at[i] += kStep * 4;
    weights += kStep * kUnit;
  } while (weights != end);
  return weights;
}

// Activation and store of R finished outputs.
template <int R, int kVectors>
TENON_INLINE void finish_dots(const DotJob& job, Vec (&sums)[R][kVectors], const float* residual, float* out) {
  if (!job.in_registers) {
    alignas(64) float scratch[R * kBlock];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) store(scratch + i * kBlock + v * kLanes, sums[i][v]);
    }
    finish_tile(scratch, R, job.channels, job.epilogue, job.slopes, residual, job.residual_at, out, job.out_at);
    return;
  }
  if (residual) {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sums[i][v] = add(sums[i][v], load(residual + job.residual_at[i] + v * kLanes));
    }
  }
  const Vec low = set1(job.epilogue.alpha), high = set1(job.epilogue.beta);
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store(out + job.out_at[i] + v * kLanes, min(high, max(low, sums[i][v])));
  }
}

// `tiles` tiles of R places that lie behind each other, as do their outputs.
template <int R, int kVectors, bool kBy4, int kFetch>
__attribute__((noinline)) void run_dots(DotJob& job, const std::byte* from, const float* residual, float* out,
                                        int64_t tiles) {
  const TilePlan& plan = job.plan;
  const std::byte* fetch = job.fetch;
  const int64_t step = plan.step, units = plan.runs.chunk / 4;
  const int64_t* const end = plan.offsets + plan.runs.chunks();
  for (int64_t t = 0; t < tiles; ++t) {
    Vec sums[R][kVectors];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[i][v] = load(job.bias + v * kLanes);
    }
    const std::byte* weights = job.weights;
    for (const int64_t* offset = plan.offsets; offset != end; ++offset)
      weights = add_chunk<R, kVectors, kBy4, kFetch>(sums, from + *offset, step, units, weights, fetch);
    finish_dots<R, kVectors>(job, sums, residual, out);
    from += R * step;
    out += R * plan.shape.out_pixel;
    if (residual) residual += R * plan.shape.res_pixel;
  }
  job.fetch = fetch;
}

// The only place there is: kChains sums of each channel, so that one addition need not wait for the one before.
template <int kVectors>
__attribute__((noinline)) void run_single(const DotJob& job, const std::byte* from, const float* residual, float* out) {
  constexpr int kChains = 8;
  const TilePlan& plan = job.plan;
  const int64_t units = plan.runs.chunk / 4;
  Vec chains[kChains][kVectors], sums[1][kVectors];
  TENON_UNROLL
  for (int i = 0; i < kChains; ++i) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) chains[i][v] = zero();
  }
  const std::byte* weights = job.weights;
  for (int64_t chunk = 0; chunk < plan.runs.chunks(); ++chunk) {
    const std::byte* const row = from + plan.offsets[chunk];
    int64_t unit = 0;
    for (; unit + kChains <= units; unit += kChains, weights += kChains * kUnit) {
      TENON_UNROLL
      for (int i = 0; i < kChains; ++i) {
        const __m512i x = spread_pair(row + (unit + i) * 4);
        TENON_UNROLL
        for (int v = 0; v < kVectors; ++v)
          add_bf16_products(chains[i][v], x, load_weights(weights + i * kUnit + v * 64));
      }
    }
    for (; unit < units; ++unit, weights += kUnit) {
      const __m512i x = spread_pair(row + unit * 4);
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) add_bf16_products(chains[0][v], x, load_weights(weights + v * 64));
    }
  }
  TENON_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    sums[0][v] = load(job.bias + v * kLanes);
    TENON_UNROLL
    for (int i = 0; i < kChains; ++i) sums[0][v] = add(sums[0][v], chains[i][v]);
  }
  finish_dots<1, kVectors>(job, sums, residual, out);
}

// `count` places that lie behind each other, as do their outputs, in tiles of nearly equal numbers.
template <int kVectors, bool kBy4>
void run_line(DotJob& job, const std::byte* from, const float* residual, float* out, int64_t count) {
  const ConvShape& s = job.plan.shape;
  if (s.batch * s.out_h * s.out_w == 1) return run_single<kVectors>(job, from, residual, out);
  const int64_t tiles = (count + kTilePixels - 1) / kTilePixels;
  const int64_t large = count % tiles;
  const int small = static_cast<int>(count / tiles);
  const auto run = [&]<int kFetch>(int rows, int64_t number) {
    with_rows(rows, [&]<int R>() __attribute__((always_inline)) {
      run_dots<R, kVectors, kBy4, kFetch>(job, from, residual, out, number);
    });
    from += number * rows * job.plan.step;
    out += number * rows * s.out_pixel;
    if (residual) residual += number * rows * s.res_pixel;
  };
  // The first tiles of a panel fetch the next: a quarter each where there are four.
  constexpr bool kFetches = kVectors == 2 && kBy4;
  const auto part = [&](int rows, int64_t number) {
    if constexpr (kFetches) {
      const int64_t fetching = smaller(number, job.to_fetch / job.fetch_each);
      if (fetching > 0 && job.fetch_each == 1) run.template operator()<1>(rows, fetching);
      if (fetching > 0 && job.fetch_each == 4) run.template operator()<4>(rows, fetching);
      job.to_fetch -= fetching * job.fetch_each;
      number -= fetching;
    }
    if (number > 0) run.template operator()<0>(rows, number);
  };
  if (large) part(small + 1, large);
  part(small, tiles - large);
}

}  // namespace

void run_bf16_dots(const Bf16Plan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const int64_t group_out = s.out_c / s.groups, blocks = (group_out + kTileBlock - 1) / kTileBlock;
  const int64_t units = plan.runs.chunks() * plan.runs.chunk / 4;
  const bool by4 = plan.runs.chunk % 16 == 0;
  const Epilogue epilogue = normalised(plan.epilogue);
  if (epilogue.residual == Residual::none) residual = nullptr;
  const Bf16Copies copies(plan, in);
  DotJob job{plan, epilogue, nullptr, nullptr, nullptr, 0, false, {}, {}, nullptr, 0, 1};
  for (int i = 0; i < kTilePixels; ++i) {
    job.out_at[i] = i * s.out_pixel;
    job.residual_at[i] = i * s.res_pixel;
  }
  each_round(plan, worker, [&](const TileRound& round, int64_t n0, int64_t n1, std::byte* own) {
    const PixelCursor cursor(s, round.first);
    const bool rows = plan.source == TileSource::image;
    const Outputs all(s, plan.slots, rows ? round.image : cursor.image, rows ? round.y0 : cursor.y, cursor.x, residual);
    int64_t copied = -1;
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kTileBlock;
      job.weights = plan.packed + n * units * kUnit;
      if (group != copied) {
        for (int64_t at = 0; at < smaller(units * kUnit, kFirstFetched); at += 64)
          _mm_prefetch(job.weights + at, _MM_HINT_T1);
        copies.copy(round, group, own);
      }
      copied = group;
      job.bias = plan.bias + n * kTileBlock;
      job.slopes = epilogue.slopes + n * kTileBlock;
      job.fetch = job.weights + units * kUnit;
      job.to_fetch = 4;
      job.fetch_each = round.count > 3 * kTilePixels ? 1 : 4;
      job.channels = static_cast<int>(smaller(kTileBlock, (group + 1) * group_out - channel));
      job.in_registers = job.channels % kLanes == 0 && epilogue.act == expr::Id::Clip &&
                         epilogue.residual != Residual::after;
      Outputs outputs = all;
      outputs.take(round.count, [&](int64_t at, int64_t count, int64_t to, int64_t added) {
        const auto line = job.channels > kLanes ? by4 ? run_line<2, true> : run_line<2, false>
                                                : by4 ? run_line<1, true> : run_line<1, false>;
        line(job, own + at * plan.step, residual ? residual + channel + added : nullptr, out + channel + to, count);
      });
    }
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
