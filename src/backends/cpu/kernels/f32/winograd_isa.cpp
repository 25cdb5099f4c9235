// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/winograd.h"

#include <utility>

#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The one-dimensional transforms of F(m, 3) and F(2, 5); both sides apply them to rows, then to columns.
template <int kM, int kWindow>
struct Transform;

template <>
struct Transform<4, 3> {
  static constexpr int m = 4, tile = 6;
  static TENON_INLINE void input(const Vec (&d)[6], Vec (&o)[6]) {
    const Vec two = set1(2.f), four = set1(4.f), five = set1(5.f);
    const Vec a = fnma(four, d[2], d[4]), b = fnma(four, d[1], d[3]);
    const Vec e = sub(d[4], d[2]), f = sub(d[3], d[1]);
    o[0] = fma(four, d[0], fnma(five, d[2], d[4]));
    o[1] = add(a, b);
    o[2] = sub(a, b);
    o[3] = fma(two, f, e);
    o[4] = fnma(two, f, e);
    o[5] = fma(four, d[1], fnma(five, d[3], d[5]));
  }
  static TENON_INLINE void output(const Vec (&v)[6], Vec (&o)[4]) {
    const Vec a = add(v[1], v[2]), b = sub(v[1], v[2]), c = add(v[3], v[4]), d = sub(v[3], v[4]);
    o[0] = add(v[0], add(a, c));
    o[1] = fma(set1(2.f), d, b);
    o[2] = fma(set1(4.f), c, a);
    o[3] = add(fma(set1(8.f), d, b), v[5]);
  }
  template <int kPoint>
  static TENON_INLINE Vec weights(Vec w0, Vec w1, Vec w2) {
    if constexpr (kPoint == 0) return mul(set1(1.f / 4), w0);
    if constexpr (kPoint == 1) return mul(set1(-1.f / 6), add(add(w0, w2), w1));
    if constexpr (kPoint == 2) return mul(set1(-1.f / 6), sub(add(w0, w2), w1));
    if constexpr (kPoint == 3) return mul(set1(1.f / 24), fma(set1(4.f), w2, fma(set1(2.f), w1, w0)));
    if constexpr (kPoint == 4) return mul(set1(1.f / 24), fma(set1(4.f), w2, fnma(set1(2.f), w1, w0)));
    return w2;
  }
};

template <>
struct Transform<2, 3> {
  static constexpr int m = 2, tile = 4;
  static TENON_INLINE void input(const Vec (&d)[4], Vec (&o)[4]) {
    o[0] = sub(d[0], d[2]);
    o[1] = add(d[1], d[2]);
    o[2] = sub(d[2], d[1]);
    o[3] = sub(d[1], d[3]);
  }
  static TENON_INLINE void output(const Vec (&v)[4], Vec (&o)[2]) {
    o[0] = add(v[0], add(v[1], v[2]));
    o[1] = sub(sub(v[1], v[2]), v[3]);
  }
  template <int kPoint>
  static TENON_INLINE Vec weights(Vec w0, Vec w1, Vec w2) {
    if constexpr (kPoint == 0) return w0;
    if constexpr (kPoint == 1) return mul(set1(.5f), add(add(w0, w2), w1));
    if constexpr (kPoint == 2) return mul(set1(.5f), sub(add(w0, w2), w1));
    return w2;
  }
};

// The points of F(4, 3).
template <>
struct Transform<2, 5> {
  static constexpr int m = 2, tile = 6;
  static TENON_INLINE void input(const Vec (&d)[6], Vec (&o)[6]) { Transform<4, 3>::input(d, o); }
  static TENON_INLINE void output(const Vec (&v)[6], Vec (&o)[2]) {
    const Vec a = add(v[1], v[2]), b = sub(v[1], v[2]), c = add(v[3], v[4]), d = sub(v[3], v[4]);
    o[0] = add(v[0], add(a, c));
    o[1] = add(fma(set1(2.f), d, b), v[5]);
  }
};

// Channels c.. of one tile: at(y, x) gives the vector of an input pixel.
template <class F, class Load>
TENON_INLINE void transform_input(const Load& at, float* v, int64_t v_point) {
  constexpr int t = F::tile;
  Vec columns[t][t];
  TENON_UNROLL
  for (int x = 0; x < t; ++x) {
    Vec d[t];
    TENON_UNROLL
    for (int y = 0; y < t; ++y) d[y] = at(y, x);
    F::input(d, columns[x]);
  }
  TENON_UNROLL
  for (int y = 0; y < t; ++y) {
    Vec d[t], o[t];
    TENON_UNROLL
    for (int x = 0; x < t; ++x) d[x] = columns[x][y];
    F::input(d, o);
    TENON_UNROLL
    for (int x = 0; x < t; ++x) store(v + (y * t + x) * v_point, o[x]);
  }
}

// A tile of an image, and its place there.
struct Tile {
  int64_t image, place;
};
TENON_INLINE Tile tile_at(const WinogradPlan& plan, int64_t tile) {
  const int64_t image = tile / (plan.tiles_h * plan.tiles_w);
  return {image, tile - image * plan.tiles_h * plan.tiles_w};
}

// The first output of a tile, whose others lie as far apart as the window's taps: each of as many rows and columns as
// there are between two taps has tiles of its own, one behind the other.
struct Origin {
  int64_t y, x;
};
template <class F>
TENON_INLINE Origin origin_of(const WinogradPlan& plan, Tile tile) {
  const ConvShape& s = plan.shape;
  const int64_t row = tile.place / plan.tiles_w, column = tile.place % plan.tiles_w;
  if (s.dilation_h == 1 && s.dilation_w == 1) return {row * F::m, column * F::m};
  return {row % s.dilation_h + row / s.dilation_h * F::m * s.dilation_h,
          column % s.dilation_w + column / s.dilation_w * F::m * s.dilation_w};
}

template <class F>
__attribute__((noinline)) void transform_tile(const WinogradPlan& plan, const float* in, Tile tile, float* v) {
  constexpr int t = F::tile;
  const ConvShape& s = plan.shape;
  const Origin origin = origin_of<F>(plan, tile);
  const int64_t y0 = origin.y - s.pad_top, x0 = origin.x - s.pad_left, dy = s.dilation_h, dx = s.dilation_w;
  const float* base = in + tile.image * s.in_image + y0 * s.in_row + x0 * s.in_pixel;
  const int64_t row = dy * s.in_row, pixel = dx * s.in_pixel, channels = s.in_c / s.slices,
                whole = channels / kLanes * kLanes;
  const int left = static_cast<int>(channels - whole);
  const bool inside = y0 >= 0 && x0 >= 0 && y0 + (t - 1) * dy < s.in_h && x0 + (t - 1) * dx < s.in_w;
  if (inside) {
    for (int64_t c = 0; c < whole; c += kLanes) {
      const float* p = base + c;
      transform_input<F>(
          [=](int y, int x) __attribute__((always_inline)) { return load(p + y * row + x * pixel); }, v + c,
          plan.v_point);
    }
    if (!left) return;
  }
  const float* source[t][t];
  for (int y = 0; y < t; ++y) {
    for (int x = 0; x < t; ++x) {
      const int64_t at_y = y0 + y * dy, at_x = x0 + x * dx;
      const bool valid = at_y >= 0 && at_y < s.in_h && at_x >= 0 && at_x < s.in_w;
      source[y][x] = valid ? base + y * row + x * pixel : plan.zeros;
    }
  }
  for (int64_t c = inside ? whole : 0; c < whole; c += kLanes) {
    transform_input<F>(
        [&](int y, int x) __attribute__((always_inline)) { return load(source[y][x] + c); }, v + c, plan.v_point);
  }
  if (left) {
    transform_input<F>(
        [&](int y, int x) __attribute__((always_inline)) { return load_n(source[y][x] + whole, left); }, v + whole,
        plan.v_point);
  }
}

// Whether a lane is infinite or no number.
TENON_INLINE bool is_odd(Vec x) {
#if defined(__AVX512F__)
  return _mm512_fpclass_ps_mask(x, 0x99) != 0;
#elif defined(__AVX2__)
  x = sub(x, x);
  return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0;
#else
  x = sub(x, x);
  return _mm_movemask_ps(_mm_cmpunord_ps(x, x)) != 0;
#endif
}

TENON_INLINE float given(const GivenWeights& weights, int64_t at) {
  return weights.value ? weights.value(weights.data, at) : static_cast<const float*>(weights.data)[at];
}

// The sum of one output pixel and channel, by the weights as they were given.
float direct_sum(const WinogradPlan& plan, const float* image, int64_t y, int64_t x, int64_t channel, float sum) {
  const ConvShape& s = plan.shape;
  const int64_t taps = int64_t{s.kernel_h} * s.kernel_w, first = channel * plan.group_in * taps;
  image += channel / plan.group_out * plan.group_in;
  for (int64_t p = 0; p < taps; ++p) {
    const int64_t row = y - s.pad_top + p / s.kernel_w * s.dilation_h,
                  column = x - s.pad_left + p % s.kernel_w * s.dilation_w;
    if (row < 0 || row >= s.in_h || column < 0 || column >= s.in_w) continue;
    const float* from = image + row * s.in_row + column * s.in_pixel;
    const int64_t channels = plan.group_in / s.slices;
    for (int64_t c = 0; c < plan.group_in; ++c)
      sum += from[c / channels * s.in_slice + c % channels] * given(plan.weights, first + c * taps + p);
  }
  return sum;
}

// A tile and vector of channels without the transforms, through which one infinity makes the whole tile no number.
template <class F>
__attribute__((noinline)) void sum_directly(const WinogradPlan& plan, const float* image, int64_t y0, int64_t x0,
                                            int64_t channel, int n, const float* bias, Vec (&result)[F::m][F::m]) {
  const ConvShape& s = plan.shape;
  alignas(64) float lanes[kLanes] = {};
  for (int y = 0; y < F::m; ++y)
    for (int x = 0; x < F::m; ++x) {
      const int64_t at_y = y0 + y * s.dilation_h, at_x = x0 + x * s.dilation_w;
      if (at_y >= s.out_h || at_x >= s.out_w) continue;
      for (int i = 0; i < n; ++i) lanes[i] = direct_sum(plan, image, at_y, at_x, channel + i, bias[i]);
      result[y][x] = load(lanes);
    }
}

// Transforms the products of one tile and block of output channels back, with bias, residual and activation.
template <class F, class Act>
TENON_INLINE void transform_output(const WinogradPlan& plan, const Epilogue& e, const float* products, int64_t block,
                                   Tile tile, const float* in, const float* residual, float* out) {
  constexpr int t = F::tile;
  const ConvShape& s = plan.shape;
  const Origin origin = origin_of<F>(plan, tile);
  const int64_t image = tile.image, y0 = origin.y, x0 = origin.x, dy = s.dilation_h, dx = s.dilation_w;
  const int rows = static_cast<int>(smaller(F::m, (s.out_h - y0 + dy - 1) / dy)),
            columns = static_cast<int>(smaller(F::m, (s.out_w - x0 + dx - 1) / dx));
  if (rows <= 0 || columns <= 0) return;
  const int64_t out_row = dy * s.out_row, out_pixel = dx * s.out_pixel, res_row = dy * s.res_row,
                res_pixel = dx * s.res_pixel;
  float* to = out + image * s.out_image + y0 * s.out_row + x0 * s.out_pixel;
  const float* r = residual ? residual + image * s.res_image + y0 * s.res_row + x0 * s.res_pixel : nullptr;
  const int64_t group = block / plan.group_blocks, of_group = (block - group * plan.group_blocks) * kBlock;
  for (int h = 0; h < kBlock; h += kLanes) {
    const int64_t channel = group * plan.group_out + of_group + h;
    const float* const biases = plan.bias + block * kBlock + h;
    const float* const slopes = e.slopes + block * kBlock + h;
    const int n = static_cast<int>(smaller(kLanes, plan.group_out - of_group - h));
    if (n <= 0) return;
    Vec half[F::m][t], result[F::m][F::m];
    TENON_UNROLL
    for (int x = 0; x < t; ++x) {
      Vec v[t], o[F::m];
      TENON_UNROLL
      for (int y = 0; y < t; ++y) v[y] = load(products + h + (y * t + x) * plan.m_point);
      F::output(v, o);
      TENON_UNROLL
      for (int y = 0; y < F::m; ++y) half[y][x] = o[y];
    }
    const Vec bias = load(biases);
    TENON_UNROLL
    for (int y = 0; y < F::m; ++y) {
      F::output(half[y], result[y]);
      TENON_UNROLL
      for (int x = 0; x < F::m; ++x) result[y][x] = add(result[y][x], bias);
    }
    // Every product is part of a corner.
    const Vec corners =
        add(add(result[0][0], result[0][F::m - 1]), add(result[F::m - 1][0], result[F::m - 1][F::m - 1]));
    if (is_odd(corners) && plan.weights.data) [[unlikely]] {
      Vec sums[F::m][F::m];
      sum_directly<F>(plan, in + image * s.in_image, y0, x0, channel, n, biases, sums);
      for (int y = 0; y < rows; ++y)
        for (int x = 0; x < columns; ++x) result[y][x] = sums[y][x];
    }
    if (n == kLanes && rows == F::m && columns == F::m && !r) {
      TENON_UNROLL
      for (int y = 0; y < F::m; ++y) {
        TENON_UNROLL
        for (int x = 0; x < F::m; ++x) {
          store(to + channel + y * out_row + x * out_pixel, activate<Act>(result[y][x], e, slopes));
        }
      }
      continue;
    }
    for (int y = 0; y < rows; ++y) {
      for (int x = 0; x < columns; ++x) {
        Vec v = result[y][x], a = zero();
        if (r) a = load_n(r + channel + y * res_row + x * res_pixel, n);
        if (e.residual == Residual::before) v = add(v, a);
        v = activate<Act>(v, e, slopes);
        if (e.residual == Residual::after) v = add(v, a);
        float* p = to + channel + y * out_row + x * out_pixel;
        if (n == kLanes) {
          store(p, v);
        } else {
          store_n(p, v, n);
        }
      }
    }
  }
}

// The tiles that are transformed or multiplied together: from `first` on one behind the other, or `places` places of
// one image after the other.
struct Tiles {
  int64_t first, count;
  int64_t image, place, places;  // places: 0 where they lie one behind the other
  TENON_INLINE Tile at(const WinogradPlan& plan, int64_t t) const {
    return places ? Tile{image + t / places, place + t % places} : tile_at(plan, first + t);
  }
};

template <class F>
__attribute__((noinline)) void transform_outputs(const WinogradPlan& plan, const Epilogue& e, const float* products,
                                                 int64_t block, const Tiles& tiles, const float* in,
                                                 const float* residual, float* out) {
  with_activation(
      e.act, [&]<class Act>() __attribute__((always_inline)) {
        for (int64_t t = 0; t < tiles.count; ++t) {
          transform_output<F, Act>(plan, e, products + t * kBlock, block, tiles.at(plan, t), in, residual, out);
        }
      });
}

// What rows of transformed tiles are multiplied with: `slices` runs of k steps each, `slice` floats apart.
struct Depth {
  int64_t pitch, k, slices, slice;  // pitch: of rows
};

// `count` groups of R rows of a times one panel; each group fetches kFetch quarters of another.
template <int R, int kFetch>
__attribute__((noinline)) void multiply_rows(const float* a, const Depth& depth, int64_t count, const float* panel,
                                             float* c, const char* fetch) {
  for (int64_t t = 0; t < count; ++t, a += R * depth.pitch, c += R * kBlock) {
    Sums<R> sums;
    sums.clear();
    const float* b = panel;
    for (int64_t s = 0; s < depth.slices; ++s) {
      const float* rows[R];
      TENON_UNROLL
      for (int i = 0; i < R; ++i) rows[i] = a + s * depth.slice + i * depth.pitch;
      b = accumulate<R, true, kFetch>(sums, rows, depth.k, b, fetch);
    }
    sums.store_to(c, kBlock);
  }
}

// The same for a block of at most kLanes channels, whose panel is not fetched.
template <int R>
__attribute__((noinline)) void multiply_half_rows(const float* a, const Depth& depth, int64_t count, const float* panel,
                                                  float* c) {
  for (int64_t t = 0; t < count; ++t, a += R * depth.pitch, c += R * kBlock) {
    Vec sums[R];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) sums[i] = zero();
    const float* b = panel;
    for (int64_t s = 0; s < depth.slices; ++s) {
      const float* const from = a + s * depth.slice;
      for (int64_t k = 0; k < depth.k; k += 4, b += 4 * kBlock) {
        TENON_UNROLL
        for (int step = 0; step < 4; ++step) {
          const Vec w = load(b + step * kBlock);
          TENON_UNROLL
          for (int i = 0; i < R; ++i) add_product(sums[i], set1(from[i * depth.pitch + k + step]), w);
        }
      }
    }
    TENON_UNROLL
    for (int i = 0; i < R; ++i) store(c + i * kBlock, sums[i]);
  }
}

// The tiles of one point times its panel; `next`, if any, is the panel to fetch meanwhile.
__attribute__((noinline)) void multiply_point(const Depth& depth, const float* v, float* products, int64_t tiles,
                                              const float* panel, const float* next) {
  const int64_t count = (tiles + kTilePixels - 1) / kTilePixels, large = tiles % count;
  const int small = static_cast<int>(tiles / count);
  const int64_t panel_bytes = depth.slices * depth.k * kBlock * static_cast<int64_t>(sizeof(float));
  const char* const fetch = reinterpret_cast<const char*>(next);
  // As in the direct kernel: a quarter of the next panel by each of the first four groups.
  const int64_t fetching = !next ? 0 : count < 4 ? 1 : 4;
  const auto run = [&]<int R>(int64_t first, int64_t begin, int64_t end) __attribute__((always_inline)) {
    const float* a = v + first * depth.pitch;
    float* c = products + first * kBlock;
    const int64_t middle = begin > fetching ? begin : end < fetching ? end : fetching;
    if (fetching == 1) {
      multiply_rows<R, 4>(a, depth, middle - begin, panel, c, fetch);
    } else if (fetching) {
      multiply_rows<R, 1>(a, depth, middle - begin, panel, c, fetch + begin * panel_bytes / 4);
    }
    const int64_t done = (middle - begin) * R;
    multiply_rows<R, 0>(a + done * depth.pitch, depth, end - middle, panel, c + done * kBlock, nullptr);
  };
  if (large)
    with_rows(
        small + 1, [&]<int R>() __attribute__((always_inline)) { run.template operator()<R>(0, 0, large); });
  with_rows(
      small, [&]<int R>()
                 __attribute__((always_inline)) { run.template operator()<R>(large * (small + 1), large, count); });
}

__attribute__((noinline)) void multiply_half_point(const Depth& depth, const float* v, float* products, int64_t tiles,
                                                   const float* panel) {
  const int64_t count = (tiles + kHalfPixels - 1) / kHalfPixels, large = tiles % count;
  const int small = static_cast<int>(tiles / count);
  if (large)
    with_rows<kHalfPixels>(
        small + 1, [&]<int R>()
                       __attribute__((always_inline)) { multiply_half_rows<R>(v, depth, large, panel, products); });
  const int64_t done = large * (small + 1);
  with_rows<kHalfPixels>(
      small, [&]<int R>() __attribute__((always_inline)) {
        multiply_half_rows<R>(v + done * depth.pitch, depth, count - large, panel, products + done * kBlock);
      });
}

// `slice`: floats of transformed tiles from one slice of channels to the next.
template <class F>
void multiply_block(const WinogradPlan& plan, const float* v, float* products, int64_t block, int64_t tiles,
                    int64_t slice) {
  constexpr int points = F::tile * F::tile;
  const Depth depth{plan.channels, plan.depth, plan.shape.slices, slice};
  const int64_t group = block / plan.group_blocks, panel_floats = plan.shape.slices * plan.depth * kBlock;
  v += group * plan.group_in;
  const float* panel = plan.packed + block * points * panel_floats;
  const bool half = plan.group_out - (block - group * plan.group_blocks) * kBlock <= kLanes;
  for (int p = 0; p < points; ++p, panel += panel_floats) {
    if (half) {
      multiply_half_point(depth, v + p * plan.v_point, products + p * plan.m_point, tiles, panel);
    } else {
      multiply_point(depth, v + p * plan.v_point, products + p * plan.m_point, tiles, panel, panel + panel_floats);
    }
  }
}

// Panels of the points of one row, of the nine taps of a block of output channels.
template <class F, int kRow>
__attribute__((noinline)) void transform_weights(const float* taps, int64_t panel_floats, float* panels) {
  for (int64_t i = 0; i < panel_floats; i += kLanes) {
    Vec w[3];
    TENON_UNROLL
    for (int x = 0; x < 3; ++x) {
      const auto tap = [&](int y) __attribute__((always_inline)) {
        return load(taps + i + (y * 3 + x) * panel_floats);
      };
      w[x] = kRow == 0             ? F::template weights<kRow>(tap(0), zero(), zero())
             : kRow == F::tile - 1 ? tap(2)
                                   : F::template weights<kRow>(tap(0), tap(1), tap(2));
    }
    [&]<int... kPoints>(std::integer_sequence<int, kPoints...>) __attribute__((always_inline)) {
      (store(panels + i + kPoints * panel_floats, F::template weights<kPoints>(w[0], w[1], w[2])), ...);
    }
    (std::make_integer_sequence<int, F::tile>());
  }
}

// multiply_block() by weights that are transformed here, a row of points at a time.
template <class F>
void multiply_taps(const WinogradPlan& plan, const float* v, float* products, float* panels, int64_t block,
                   bool is_last) {
  constexpr int t = F::tile, points = t * t;
  const int64_t panel_floats = plan.depth * kBlock;
  const Depth depth{plan.channels, plan.depth, 1, 0};
  v += block / plan.group_blocks * plan.group_in;
  const float* const taps = plan.packed + block * 9 * panel_floats;
  const auto row = [&]<int kRow>() __attribute__((always_inline)) {
    transform_weights<F, kRow>(taps, panel_floats, panels);
    for (int x = 0; x < t; ++x) {
      const int p = kRow * t + x, tap = p - (points - 9);
      const float* const next = tap >= 0 && !is_last ? taps + (9 + tap) * panel_floats : nullptr;
      multiply_point(depth, v + p * plan.v_point, products + p * plan.m_point, plan.tiles, panels + x * panel_floats,
                     next);
    }
  };
  [&]<int... kRows>(std::integer_sequence<int, kRows...>) __attribute__((always_inline)) {
    (row.template operator()<kRows>(), ...);
  }
  (std::make_integer_sequence<int, t>());
}

// Blocks of images and places, where channels lie in slices.
template <class F>
void run_slices(const WinogradPlan& plan, const float* in, const float* residual, float* out, float* v, float* products,
                const Worker& w) {
  const Epilogue e = normalised(plan.epilogue);
  const int64_t images = plan.shape.batch, places = plan.tiles_h * plan.tiles_w,
                beyond = (plan.shape.slices - 1) * plan.slice_images;
  const int64_t image_blocks = (images + plan.block_images - 1) / plan.block_images,
                place_blocks = (places + plan.block_places - 1) / plan.block_places;
  const int64_t all = image_blocks * place_blocks, end = all * (w.id + 1) / w.count;
  for (int64_t at = all * w.id / w.count; at < end; ++at) {
    const int64_t i = at / place_blocks, p = at % place_blocks;
    const int64_t image = images * i / image_blocks, own_images = images * (i + 1) / image_blocks - image;
    const int64_t place = places * p / place_blocks, own_places = places * (p + 1) / place_blocks - place;
    const Tiles tiles{0, own_images * own_places, image, place, own_places};
    for (int64_t t = 0; t < (own_images + beyond) * own_places; ++t)
      transform_tile<F>(plan, in, tiles.at(plan, t), v + t * plan.channels);
    for (int64_t n = 0; n < plan.blocks; ++n) {
      multiply_block<F>(plan, v, products, n, tiles.count, plan.slice_images * own_places * plan.channels);
      transform_outputs<F>(plan, e, products, n, tiles, in, residual, out);
    }
  }
}

template <class F>
void run_tiles(const WinogradPlan& plan, const float* in, const float* residual, float* out, const Worker& w) {
  const Epilogue e = normalised(plan.epilogue);
  if (e.residual == Residual::none) residual = nullptr;
  float* const floats = reinterpret_cast<float*>(w.workspace);
  float* const products = floats + plan.v_buffers * plan.v_floats + w.id * (plan.m_floats + plan.u_floats);
  float* const v = plan.by_channels ? floats : floats + w.id * plan.v_floats;
  if (plan.shape.slices > 1) return run_slices<F>(plan, in, residual, out, v, products, w);
  const int64_t t0 = plan.tiles * w.id / w.count, t1 = plan.tiles * (w.id + 1) / w.count;
  if (plan.by_channels) {
    for (int64_t t = t0; t < t1; ++t) transform_tile<F>(plan, in, tile_at(plan, t), v + t * plan.channels);
    if (w.count > 1) w.barrier(w.thread_pool);
    const int64_t n0 = plan.blocks * w.id / w.count, n1 = plan.blocks * (w.id + 1) / w.count;
    for (int64_t n = n0; n < n1; ++n) {
      if constexpr (F::tile - F::m == 2) {
        if (plan.u_floats) multiply_taps<F>(plan, v, products, products + plan.m_floats, n, n + 1 == n1);
      }
      if (!plan.u_floats) multiply_block<F>(plan, v, products, n, plan.tiles, 0);
      transform_outputs<F>(plan, e, products, n, Tiles{0, plan.tiles, 0, 0, 0}, in, residual, out);
    }
    return;
  }
  const int64_t rounds = (t1 - t0 + plan.block_tiles - 1) / plan.block_tiles;
  for (int64_t i = 0; i < rounds; ++i) {
    const int64_t first = t0 + (t1 - t0) * i / rounds, count = t0 + (t1 - t0) * (i + 1) / rounds - first;
    for (int64_t t = 0; t < count; ++t) transform_tile<F>(plan, in, tile_at(plan, first + t), v + t * plan.channels);
    for (int64_t n = 0; n < plan.blocks; ++n) {
      multiply_block<F>(plan, v, products, n, count, 0);
      transform_outputs<F>(plan, e, products, n, Tiles{first, count, 0, 0, 0}, in, residual, out);
    }
  }
}

void run(const WinogradPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  if (plan.m == 4) run_tiles<Transform<4, 3>>(plan, in, residual, out, worker);
  else if (plan.tile == 4) run_tiles<Transform<2, 3>>(plan, in, residual, out, worker);
  else run_tiles<Transform<2, 5>>(plan, in, residual, out, worker);
}

}  // namespace

extern const WinogradOps winograd_ops;
const WinogradOps winograd_ops = {kBlock, kLanes, kTilePixels, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
