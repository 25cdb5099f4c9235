// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_finish.h"
#include "backends/cpu/kernels/int8/int8_micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int kPerVector = 2 * kLanes;  // in a vector

TENON_INLINE void transform_line(const IVec (&d)[4], IVec (&o)[4]) {
  o[0] = isub16(d[0], d[2]);
  o[1] = iadd16(d[1], d[2]);
  o[2] = isub16(d[2], d[1]);
  o[3] = isub16(d[1], d[3]);
}

// Values of one tile, int16: at(y, x) gives those of an input pixel. A zero point common to all pixels is left in one
// point only, four times.
template <class Load>
TENON_INLINE void transform_int16(const Load& at, IVec four_zeros, int16_t* v, int64_t v_point) {
  IVec columns[4][4];
  TENON_UNROLL
  for (int x = 0; x < 4; ++x) {
    IVec d[4];
    TENON_UNROLL
    for (int y = 0; y < 4; ++y) d[y] = at(y, x);
    transform_line(d, columns[x]);
  }
  TENON_UNROLL
  for (int y = 0; y < 4; ++y) {
    IVec d[4], o[4];
    TENON_UNROLL
    for (int x = 0; x < 4; ++x) d[x] = columns[x][y];
    transform_line(d, o);
    if (y == 1) o[1] = isub16(o[1], four_zeros);
    TENON_UNROLL
    for (int x = 0; x < 4; ++x) istore(v + (y * 4 + x) * v_point, o[x]);
  }
}

__attribute__((noinline)) void transform_tile(const Int8WinogradPlan& plan, const uint8_t* in, int64_t tile,
                                              int16_t* v) {
  const ConvShape& s = plan.shape;
  const int64_t image = tile / (plan.tiles_h * plan.tiles_w), rest = tile - image * plan.tiles_h * plan.tiles_w;
  const int64_t y0 = rest / plan.tiles_w * 2 - s.pad_top, x0 = rest % plan.tiles_w * 2 - s.pad_left;
  const uint8_t* base = in + image * s.in_image + y0 * s.in_row + x0 * s.in_pixel;
  const int64_t row = s.in_row, pixel = s.in_pixel, whole = s.in_c / kPerVector * kPerVector;
  const int64_t left = s.in_c - whole;
  const IVec four_zeros = iset16(4 * plan.in_zero);
  const bool inside = y0 >= 0 && x0 >= 0 && y0 + 4 <= s.in_h && x0 + 4 <= s.in_w;
  if (inside)
    for (int64_t c = 0; c < whole; c += kPerVector) {
      const uint8_t* p = base + c;
      transform_int16(
          [=](int y, int x) __attribute__((always_inline)) { return widen16(p + y * row + x * pixel); }, four_zeros,
          v + c, plan.v_point);
    }
  if (inside && !left) return;
  const uint8_t* source[4][4];
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x) {
      const bool valid = y0 + y >= 0 && y0 + y < s.in_h && x0 + x >= 0 && x0 + x < s.in_w;
      source[y][x] = valid ? base + y * row + x * pixel : plan.zeros;
    }
  for (int64_t c = inside ? whole : 0; c < whole; c += kPerVector)
    transform_int16(
        [&](int y, int x) __attribute__((always_inline)) { return widen16(source[y][x] + c); }, four_zeros, v + c,
        plan.v_point);
  if (left)
    transform_int16(
        [&](int y, int x) __attribute__((always_inline)) {
          alignas(64) uint8_t copy[kPerVector] = {};
          __builtin_memcpy(copy, source[y][x] + whole, left);
          return widen16(copy);
        },
        four_zeros, v + whole, plan.v_point);
}

TENON_INLINE void sum_line(const IVec (&v)[4], IVec (&o)[2]) {
  o[0] = iadd(v[0], iadd(v[1], v[2]));
  o[1] = isub(isub(v[1], v[2]), v[3]);
}

// The four outputs of a tile for kBlock channels.
TENON_INLINE void sum_tile(const int32_t* products, int64_t m_point, int32_t (&sums)[4][kBlock]) {
  TENON_UNROLL
  for (int h = 0; h < kBlock; h += kLanes) {
    IVec half[2][4];
    TENON_UNROLL
    for (int x = 0; x < 4; ++x) {
      IVec v[4], o[2];
      TENON_UNROLL
      for (int y = 0; y < 4; ++y) v[y] = iload(products + h + (y * 4 + x) * m_point);
      sum_line(v, o);
      half[0][x] = o[0];
      half[1][x] = o[1];
    }
    TENON_UNROLL
    for (int y = 0; y < 2; ++y) {
      IVec o[2];
      sum_line(half[y], o);
      istore(&sums[y * 2][h], quarter(o[0]));
      istore(&sums[y * 2 + 1][h], quarter(o[1]));
    }
  }
}

__attribute__((noinline)) void finish_tiles(const Int8WinogradPlan& plan, const Int8Output& o, const int32_t* products,
                                            int64_t block, int64_t first, int64_t count, const uint8_t* residual,
                                            std::byte* out) {
  const ConvShape& s = plan.shape;
  const int64_t channel = block * kBlock, size = o.inverse_scale ? 1 : 4;
  const BlockOfChannels channels{channel, static_cast<int>(smaller(kBlock, s.out_c - channel))};
  with_activation(o.epilogue.act, [&]<class Act>() __attribute__((always_inline)) {
    const Finisher<Act> finisher(o);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t tile = first + t, image = tile / (plan.tiles_h * plan.tiles_w);
      const int64_t rest = tile - image * plan.tiles_h * plan.tiles_w;
      const int64_t y0 = rest / plan.tiles_w * 2, x0 = rest % plan.tiles_w * 2;
      alignas(64) int32_t sums[4][kBlock];
      sum_tile(products + t * kBlock, plan.m_point, sums);
      for (int64_t y = 0; y < smaller(2, s.out_h - y0); ++y)
        for (int64_t x = 0; x < smaller(2, s.out_w - x0); ++x) {
          const uint8_t* r = residual ? residual + image * s.res_image + (y0 + y) * s.res_row +
                                            (x0 + x) * s.res_pixel + channel
                                      : nullptr;
          finisher.pixel(
              sums[y * 2 + x], channels, r,
              out + (image * s.out_image + (y0 + y) * s.out_row + (x0 + x) * s.out_pixel + channel) * size);
        }
    }
  });
}

void multiply_block(const Int8WinogradPlan& plan, const int16_t* v, int32_t* products, int64_t block, int64_t tiles) {
  constexpr int32_t zeros[kBlock] = {};
  constexpr int64_t begin = 0;
  const Runs runs{&begin, 1, plan.channels / 2};
  const int64_t pitch = plan.channels * 2, panel = plan.channels * kBlock * 2;
  const std::byte* weights = plan.packed + block * kWinogradPoints * panel;
  for (int p = 0; p < kWinogradPoints; ++p, weights += panel)
    with_tiles(tiles, [&]<int R>(int64_t done, int64_t groups) __attribute__((always_inline)) {
      const auto* from = reinterpret_cast<const std::byte*>(v + p * plan.v_point) + done * pitch;
      int32_t* to = products + p * plan.m_point + done * kBlock;
      for (int64_t g = 0; g < groups; ++g, from += R * pitch, to += R * kBlock)
        multiply_units<Int8Form::int16, R, 2>(PitchedRows{from, pitch}, runs, weights, zeros, to, weights);
    });
}

}  // namespace

void run_winograd8(const Int8WinogradPlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                   const Worker& w) {
  Int8Output o = plan.output;
  o.epilogue = normalised(o.epilogue);
  if (o.epilogue.residual == Residual::none) residual = nullptr;
  auto* const to = static_cast<std::byte*>(out);
  std::byte* const space = w.workspace;
  auto* const products = reinterpret_cast<int32_t*>(space + plan.v_buffers * plan.v_bytes + w.id * plan.m_bytes);
  const int64_t t0 = plan.tiles * w.id / w.count, t1 = plan.tiles * (w.id + 1) / w.count;
  if (plan.by_channels) {
    auto* const v = reinterpret_cast<int16_t*>(space);
    for (int64_t t = t0; t < t1; ++t) transform_tile(plan, in, t, v + t * plan.channels);
    if (w.count > 1) w.barrier(w.thread_pool);
    const int64_t n0 = plan.blocks * w.id / w.count, n1 = plan.blocks * (w.id + 1) / w.count;
    for (int64_t n = n0; n < n1; ++n) {
      multiply_block(plan, v, products, n, plan.tiles);
      finish_tiles(plan, o, products, n, 0, plan.tiles, residual, to);
    }
    return;
  }
  auto* const v = reinterpret_cast<int16_t*>(space + w.id * plan.v_bytes);
  const int64_t rounds = (t1 - t0 + plan.block_tiles - 1) / plan.block_tiles;
  for (int64_t i = 0; i < rounds; ++i) {
    const int64_t first = t0 + (t1 - t0) * i / rounds, count = t0 + (t1 - t0) * (i + 1) / rounds - first;
    for (int64_t t = 0; t < count; ++t) transform_tile(plan, in, first + t, v + t * plan.channels);
    for (int64_t n = 0; n < plan.blocks; ++n) {
      multiply_block(plan, v, products, n, count);
      finish_tiles(plan, o, products, n, first, count, residual, to);
    }
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
