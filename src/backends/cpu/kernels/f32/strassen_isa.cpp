// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/strassen.h"

#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Between rows of sums, so that rows do not meet in one cache set.
constexpr int64_t kSkew = 16;

int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t apart(int64_t floats) { return rounded_up(floats, 1024) + 208; }

/// The first row of a chunk, of whole tiles in either half.
int64_t row_of(const StrassenPlan& plan, int64_t chunk) {
  constexpr int64_t unit = 2 * kTilePixels;
  return at_most(plan.rows, (plan.rows * chunk / plan.chunks + unit / 2) / unit * unit);
}
int64_t most_rows(const StrassenPlan& plan) {
  return at_most(plan.rows, (plan.rows + plan.chunks - 1) / plan.chunks + 2 * kTilePixels);
}
int64_t blocks_of(const StrassenPlan& plan) { return (plan.n + kBlock - 1) / kBlock; }

// Arrays of a worker begin in different sets, too.
int64_t inputs_floats(int64_t half, int64_t depth) { return apart(half * (depth + kSkew)); }
int64_t panel_floats(int64_t depth) { return apart(depth * kBlock); }
int64_t product_floats(int64_t half) { return apart(half * kBlock); }

/// A worker's floats, by where each begins.
struct Room {
  int64_t inputs, panels, products, sums, end;  // sums: those that await the rest of K

  explicit Room(const StrassenPlan& plan) {
    const int64_t half = (most_rows(plan) + 1) / 2, depth = plan.depth / 2;
    const int64_t mine = 2 * ((blocks_of(plan) / 2 + plan.channel_splits - 1) / plan.channel_splits) + 1;
    inputs = 0;
    panels = inputs + 4 * inputs_floats(half, depth);
    products = panels + 2 * panel_floats(depth);
    sums = products + 5 * product_floats(half);
    end = sums + (plan.parts > 1 ? mine * most_rows(plan) * kBlock : 0);
  }
};

size_t worker_bytes(const StrassenPlan& plan) { return Room(plan).end * sizeof(float); }

/// What a worker computes of: a chunk of rows and a part of K.
struct Part {
  const StrassenPlan& plan;
  const float* in;  // its first row and step
  const float* residual;
  float* out;  // its first row
  int64_t rows, half, k0, depth;
  bool first, last;  // of K
  float* inputs[4];
  float* panels[2];
  float* products[5];
  float* sums;

  int64_t rest() const { return rows - half; }  // rows of the second half
  int64_t inputs_pitch() const { return depth / 2 + kSkew; }
};

/// Left operands of a product, and right ones: a panel, or the difference of two.
struct Factors {
  const float* a;
  int64_t pitch, rows, k;
  const float *panel, *less = nullptr;  // null: nothing is subtracted
  float* difference = nullptr;          // goes here, which may be `less`
};

/// What products are added to and where sums go; each [rows][kBlock].
struct Targets {
  const float* begin;  // null: zeros
  float* to;
  const float* plus = nullptr;  // null: none
  float* to_plus = nullptr;     // the same sums and those
  const float* out = nullptr;   // where they will be in the end, for the caches
  int64_t out_pitch = 0;
};

/// Calls f.operator()<n>() for a runtime n of more than half a tile's rows.
template <int N = kTilePixels, class F>
TENON_INLINE void with_many_rows(int n, const F& f) {
  if constexpr (N > kTilePixels / 2) {
    if (n == N) f.template operator()<N>();
    else with_many_rows<N - 1>(n, f);
  }
}

template <int R>
TENON_INLINE void enter(Sums<R>& sums, const float* (&from)[R], const Factors& f, const Targets& targets, int64_t row) {
  if (targets.begin) sums.load_from(targets.begin + row * kBlock, kBlock);
  else sums.clear();
  TENON_UNROLL
  for (int i = 0; i < R; ++i) from[i] = f.a + (row + i) * f.pitch;
  if (!targets.out) return;
  for (int i = 0; i < R; ++i)
    for (int at = 0; at < kBlock; at += 16) __builtin_prefetch(targets.out + (row + i) * targets.out_pitch + at, 1);
}

template <int R>
TENON_INLINE void leave(const Sums<R>& sums, const Targets& targets, int64_t row) {
  const int64_t at = row * kBlock;
  sums.store_to(targets.to + at, kBlock);
  if (!targets.plus) return;
  TENON_UNROLL
  for (int i = 0; i < R; ++i)
    for (int half = 0; half < 2; ++half) {
      const int64_t place = at + i * kBlock + half * kLanes;
      store(targets.to_plus + place, add(load(targets.plus + place), sums.v[i][half]));
    }
}

/// The first rows, which write the difference that all others read.
template <int R>
__attribute__((noinline)) void first_tile(const Factors& f, const Targets& targets) {
  Sums<R> sums;
  const float* from[R];
  enter<R>(sums, from, f, targets, 0);
  const auto step = [&](int64_t k) __attribute__((always_inline)) {
    const int64_t at = k * kBlock;
    const Vec b0 = sub(load(f.panel + at), load(f.less + at)),
              b1 = sub(load(f.panel + at + kLanes), load(f.less + at + kLanes));
    store(f.difference + at, b0);
    store(f.difference + at + kLanes, b1);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const Vec x = set1(from[i][k]);
      add_product(sums.v[i][0], x, b0);
      add_product(sums.v[i][1], x, b1);
    }
  };
  for (int64_t k = 0; k < f.k; k += 4) step(k), step(k + 1), step(k + 2), step(k + 3);
  leave<R>(sums, targets, 0);
}

/// Each fetches a quarter of what a panel is long from `fetch` on, unless that is null, and the panel itself a few
/// steps ahead: it fills L1, from which inputs drive it.
template <int R, bool kFetch>
__attribute__((noinline)) void tile(const Factors& f, const Targets& targets, int64_t row, const float* panel,
                                    const char* fetch) {
  constexpr int64_t ahead = 16;
  Sums<R> sums;
  const float* from[R];
  enter<R>(sums, from, f, targets, row);
  const float* b = panel;
  for (int64_t k = 0; k < f.k; k += 4, b += 4 * kBlock) {
    TENON_UNROLL
    for (int i = 0; i < 4 * kBlock; i += 16) _mm_prefetch((const char*)(b + ahead * kBlock + i), _MM_HINT_T0);
    if constexpr (kFetch) {
      TENON_UNROLL
      for (int i = 0; i < 4 * kBlock; i += 64) _mm_prefetch(fetch + i, _MM_HINT_T1);
      fetch += 4 * kBlock;
    }
    sums.step(from, k, b);
    sums.step(from, k + 1, b + kBlock);
    sums.step(from, k + 2, b + 2 * kBlock);
    sums.step(from, k + 3, b + 3 * kBlock);
  }
  leave<R>(sums, targets, row);
}

/// Products of all rows; the first tiles fetch as much as a panel from `fetch` on, where that is not null.
void multiply(const Factors& f, const Targets& targets, const float* fetch) {
  const int64_t tiles = (f.rows + kTilePixels - 1) / kTilePixels, before = f.less ? 1 : 0;
  const float* const panel = f.less ? f.difference : f.panel;
  const auto* ahead = reinterpret_cast<const char*>(fetch);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = f.rows * t / tiles;
    with_many_rows(
        static_cast<int>(f.rows * (t + 1) / tiles - row), [&]<int R>() __attribute__((always_inline)) {
          if (t < before) first_tile<R>(f, targets);
          else if (fetch && t < before + 4) tile<R, true>(f, targets, row, panel, ahead + (t - before) * f.k * kBlock);
          else tile<R, false>(f, targets, row, panel, nullptr);
        });
  }
}

bool is_zero(Vec watch) {
  alignas(64) float lanes[kLanes];
  store(lanes, watch);
  bool zeros = true;
  for (const float lane : lanes) zeros &= lane == 0;
  return zeros;
}

#ifndef __AVX2__
Vec largest(Vec v) {
  v = max(v, _mm_shuffle_ps(v, v, 0x4e));
  return max(v, _mm_shuffle_ps(v, v, 0xb1));
}
#endif

/// Whether largest magnitudes, of any lane, are too far apart; not where one is NaN.
bool are_unlike(Vec a, Vec b) {
  const Vec most = set1(kMostUnlike), x = largest(a), y = largest(b);
  return any_less(mul(x, most), y) || any_less(mul(y, most), x);
}

/// A21 + A22, A21 + A22 - A11, A11 - A21, A12 - (A21 + A22 - A11); rows that the second half lacks are zeros. Stops and
/// returns false where rows, or halves of one, are unlike, or not all is finite.
bool add_inputs(const Part& part) {
  const int64_t depth = part.depth / 2, pitch = part.inputs_pitch();
  Vec watch = zero();
  for (int64_t row = 0; row < part.half; ++row) {
    const float* const top = part.in + row * part.plan.in_pitch;
    const float* const bottom = row < part.rest() ? part.in + (part.half + row) * part.plan.in_pitch : part.plan.zeros;
    float* const to[4] = {part.inputs[0] + row * pitch, part.inputs[1] + row * pitch, part.inputs[2] + row * pitch,
                          part.inputs[3] + row * pitch};
    Vec most[] = {zero(), zero(), zero(), zero()};  // of the magnitudes of either row's halves
    for (int64_t at = 0; at < depth; at += kLanes) {
      const int count = static_cast<int>(at_most(kLanes, depth - at));
      const auto take = [&](const float* from) { return count == kLanes ? load(from) : load_n(from, count); };
      const Vec a11 = take(top + at), a12 = take(top + depth + at), a21 = take(bottom + at),
                a22 = take(bottom + depth + at);
      const Vec below = add(a21, a22), apart = sub(below, a11), all = sub(a12, apart);
      store(to[0] + at, below);  // what lies behind a row is not read
      store(to[1] + at, apart);
      store(to[2] + at, sub(a11, a21));
      store(to[3] + at, all);
      most[0] = max(most[0], abs(a11)), most[1] = max(most[1], abs(a12));
      most[2] = max(most[2], abs(a21)), most[3] = max(most[3], abs(a22));
      watch = fma(all, zero(), watch);
    }
    if (are_unlike(most[0], most[1])) return false;
    if (row >= part.rest()) continue;
    if (are_unlike(most[2], most[3]) || are_unlike(max(most[0], most[1]), max(most[2], most[3]))) return false;
  }
  return is_zero(watch);
}

/// Sums of some rows of one block. `slot`: the block's among the worker's.
struct Quarter {
  float* sums;
  int64_t row, rows, block, slot;
};

float* kept_of(const Part& part, const Quarter& q) {
  return part.sums + (q.slot * most_rows(part.plan) + q.row) * kBlock;
}

/// Adds what the parts of K before have left, and at the end the bias. Returns whether all is finite.
bool complete(const Part& part, const Quarter& q) {
  const float* const kept = kept_of(part, q);
  const float* const bias = part.plan.bias + q.block * kBlock;
  const Vec b0 = part.last ? load(bias) : zero(), b1 = part.last ? load(bias + kLanes) : zero();
  Vec watch[] = {zero(), zero()};
  const auto add_to = [&](int64_t at, Vec by, Vec& sum) {
    Vec v = add(load(q.sums + at), by);
    if (!part.first) v = add(v, load(kept + at));
    store(q.sums + at, v);
    sum = fma(v, zero(), sum);
  };
  for (int64_t at = 0; at < q.rows * kBlock; at += kBlock) {
    add_to(at, b0, watch[0]);
    add_to(at + kLanes, b1, watch[1]);
  }
  return is_zero(add(watch[0], watch[1]));
}

/// Activation and residual; before the end of K, keeps the sums.
void finish(const Part& part, const Quarter& q) {
  const StrassenPlan& plan = part.plan;
  if (!part.last) {
    float* const kept = kept_of(part, q);
    for (int64_t at = 0; at < q.rows * kBlock; at += kLanes) store(kept + at, load(q.sums + at));
    return;
  }
  const Epilogue epilogue = normalised(plan.epilogue);
  const int64_t channel = q.block * kBlock, channels = at_most(kBlock, plan.n - channel);
  int64_t out_at[kTilePixels], residual_at[kTilePixels];
  for (int64_t first = 0; first < q.rows; first += kTilePixels) {
    const int count = static_cast<int>(at_most(kTilePixels, q.rows - first));
    for (int i = 0; i < count; ++i) {
      out_at[i] = (q.row + first + i) * plan.out_pitch;
      residual_at[i] = (q.row + first + i) * plan.res_pitch;
    }
    finish_tile(q.sums + first * kBlock, count, static_cast<int>(channels), epilogue, epilogue.slopes + channel,
                part.residual ? part.residual + channel : nullptr, residual_at, part.out + channel, out_at);
  }
}

/// A block as it is: the last one where their number is odd, or where rows or columns are unlike, or sums of sums not
/// finite.
void run_plain(const Part& part, int64_t block, int64_t slot) {
  const float* const panel = part.plan.packed + (block * part.plan.k + part.k0) * kBlock;
  const Quarter all{part.products[0], 0, part.rows, block, slot};
  multiply({part.in, part.plan.in_pitch, part.rows, part.depth, panel}, {nullptr, all.sums}, nullptr);
  complete(part, all);
  finish(part, all);
}

void run_plain_pair(const Part& part, int64_t block, int64_t beyond, int64_t slot) {
  run_plain(part, block, slot);
  run_plain(part, block + beyond, slot + 1);
}

/// A block of either half. `next`: the first block of the pair behind it, for the caches.
void run_pair(const Part& part, int64_t block, int64_t beyond, int64_t slot, int64_t next) {
  const StrassenPlan& plan = part.plan;
  const int64_t depth = part.depth / 2, half = part.half, rest = part.rest();
  const auto panel_of = [&](int64_t at, int64_t k) { return plan.packed + (at * plan.k + part.k0 + k) * kBlock; };
  const float *const b11 = panel_of(block, 0), *const b21 = panel_of(block, depth),
                     *const b12 = panel_of(block + beyond, 0), *const b22 = panel_of(block + beyond, depth);
  const auto given = [&](int64_t row, int64_t k, int64_t rows, const float* panel, const float* less, float* to) {
    return Factors{part.in + row * plan.in_pitch + k, plan.in_pitch, rows, depth, panel, less, to};
  };
  const auto sums = [&](int which, const float* panel, const float* less, float* to) {
    return Factors{part.inputs[which], part.inputs_pitch(), half, depth, panel, less, to};
  };
  float *const t1 = part.panels[0], *const t2 = part.panels[1];
  float *const p1 = part.products[0], *const c11 = part.products[1], *const p5 = part.products[2],
               *const p6 = part.products[3], *const p56 = part.products[4];
  float *const c12 = p1, *const c22 = p5, *const c21 = p6;
  const float* const none = nullptr;
  const auto out = [&](int64_t row, int64_t at) {
    return part.last ? part.out + row * plan.out_pitch + at * kBlock : none;
  };
  multiply(given(0, 0, half, b11, none, nullptr), {none, p1}, b21);
  multiply(given(0, depth, half, b21, none, nullptr), {p1, c11, none, nullptr, out(0, block), plan.out_pitch}, b12);
  multiply(sums(0, b12, b11, t1), {none, p5}, b22);
  multiply(sums(1, b22, t1, t2), {p1, p6, p5, p56}, none);
  multiply(sums(3, b22, none, nullptr), {p56, c12, none, nullptr, out(0, block + beyond), plan.out_pitch}, none);
  multiply(sums(2, b22, b12, t1), {p6, p6, p5, c22, out(half, block + beyond), plan.out_pitch}, none);
  multiply(given(half, depth, rest, b21, t2, t2), {p6, c21, none, nullptr, out(half, block), plan.out_pitch},
           panel_of(next, 0));
  const Quarter quarters[] = {{c11, 0, half, block, slot},
                              {c21, half, rest, block, slot},
                              {c12, 0, half, block + beyond, slot + 1},
                              {c22, half, rest, block + beyond, slot + 1}};
  bool finite = true;
  for (const Quarter& q : quarters) finite &= complete(part, q);
  if (!finite) return run_plain_pair(part, block, beyond, slot);
  for (const Quarter& q : quarters) finish(part, q);
}

void run(const StrassenPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const int64_t pairs = blocks_of(plan) / 2;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t p0 = pairs * part_n / plan.channel_splits, p1 = pairs * (part_n + 1) / plan.channel_splits;
  const bool odd = blocks_of(plan) % 2 && part_n + 1 == plan.channel_splits;
  const Room room(plan);
  auto* const floats = reinterpret_cast<float*>(worker.workspace + worker.id * plan.worker_bytes);
  if (plan.epilogue.residual == Residual::none) residual = nullptr;
  for (int64_t chunk = plan.chunks * part_m / plan.row_splits; chunk < plan.chunks * (part_m + 1) / plan.row_splits;
       ++chunk) {
    const int64_t r0 = row_of(plan, chunk), rows = (chunk + 1 < plan.chunks ? row_of(plan, chunk + 1) : plan.rows) - r0;
    for (int64_t k0 = 0; k0 < plan.k; k0 += plan.depth) {
      const int64_t half = (rows + 1) / 2, depth = at_most(plan.depth, plan.k - k0);
      Part part{plan,
                in + r0 * plan.in_pitch + k0,
                residual ? residual + r0 * plan.res_pitch : nullptr,
                out + r0 * plan.out_pitch,
                rows,
                half,
                k0,
                depth,
                k0 == 0,
                k0 + depth == plan.k,
                {},
                {},
                {},
                floats + room.sums};
      for (int64_t i = 0; i < 4; ++i) part.inputs[i] = floats + room.inputs + i * inputs_floats(half, depth / 2);
      for (int64_t i = 0; i < 2; ++i) part.panels[i] = floats + room.panels + i * panel_floats(depth / 2);
      for (int64_t i = 0; i < 5; ++i) part.products[i] = floats + room.products + i * product_floats(half);
      const bool alike = p0 < p1 && add_inputs(part);
      for (int64_t p = p0; p < p1; ++p) {
        if (alike && !plan.unlike[p]) run_pair(part, p, pairs, 2 * (p - p0), p + 1 < p1 ? p + 1 : p0);
        else run_plain_pair(part, p, pairs, 2 * (p - p0));
      }
      if (odd) run_plain(part, 2 * pairs, 2 * (p1 - p0));
    }
  }
}

}  // namespace

extern const StrassenOps strassen_ops;
const StrassenOps strassen_ops = {kBlock, worker_bytes, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
