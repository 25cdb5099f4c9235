// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/depthwise.h"
#include "backends/cpu/kernels/f32/epilogue.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

constexpr int kGroup = 4;      // neighbouring pixels that share their input loads
constexpr int kStrip = 64;     // channels finished at a time where the epilogue is more than a clamp

// One row of output pixels and the channels [c0, c1); kernel rows ky0 to ky0 + rows lie inside the image.
struct RowJob {
  const DepthwisePlan& plan;
  const Epilogue& e;
  const float* in;  // input row of tap row 0, column 0 (may lie outside; only rows ky0.. are read)
  const float* residual;
  float* out;
  int64_t c0, c1;
  int ky0, rows;
};

// Where sums go: the output itself, or a scratch strip that is finished afterwards.
struct Sink {
  float* to;  // of channel c0
  int64_t pitch;
  float low, high;
};

// Weights of the vector that starts at channel c, from kernel row ky0 on.
TENON_INLINE const float* weights_at(const RowJob& job, int64_t c) {
  const int64_t row = int64_t{job.plan.shape.kernel_w} * job.plan.group_in;
  return job.plan.packed + c * job.plan.shape.kernel_h * row + job.ky0 * row * kLanes;
}

// Calls vector(c, n, from, m) for the vectors of [c0, c1): n output channels from c, and m input channels from `from`.
template <class F>
TENON_INLINE void each_vector(const RowJob& job, int64_t c0, int64_t c1, const F& vector) {
  const int64_t in_c = job.plan.shape.in_c, step = job.plan.vector_in;
  int64_t c = c0, from = c0 / kLanes * step;
  const int64_t stop =
      in_c < kLanes ? 0
                    : smaller(c1, (in_c - kLanes) / step * kLanes + kLanes);  // up to here whole vectors can be read
  for (; c + kLanes <= stop; c += kLanes, from += step) vector.template operator()<false>(c, kLanes, from, kLanes);
  for (; c < c1; c += kLanes, from += step) {
    vector.template operator()<true>(c, static_cast<int>(smaller(kLanes, c1 - c)), from,
                                     static_cast<int>(smaller(kLanes, in_c - from)));
  }
}

// kPixels pixels whose windows, kKernel columns wide, lie inside the image in x; kRows = 0 leaves the number of kernel
// rows to the job, as the last, partial vector always does.
// kGroups: lanes take their inputs from other lanes, in several rounds.
template <int kKernel, int kStride, int kPixels, int kRows, bool kGroups>
TENON_INLINE void inside(const RowJob& job, int64_t x, int64_t c0, int64_t c1, const Sink& sink) {
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel;
  const ConvShape& s = job.plan.shape;
  const int64_t pixel = s.in_pixel, pitch = sink.pitch, in_row = s.in_row;
  const float* const in = job.in + job.ky0 * in_row + (x * kStride - s.pad_left) * pixel;
  const float* const bias = job.plan.bias;
  float* const to = sink.to - c0;
  const Vec low = set1(sink.low), high = set1(sink.high);
  const float* w = weights_at(job, c0);
  const int rows = kRows ? kRows : job.rows, group_in = kGroups ? job.plan.group_in : 1;
  const int32_t* const index = job.plan.index;
  each_vector(job, c0, c1, [&]<bool kPartial>(int64_t c, int n, int64_t from, int m) __attribute__((always_inline)) {
    Vec sums[kPixels];
    TENON_UNROLL
    for (int i = 0; i < kPixels; ++i) sums[i] = load(bias + c);
    const float* row = in + (kGroups ? from : c);
    const float* taps_at = w;
    const auto one_input = [&](int j) __attribute__((always_inline)) {
      Vec taps[kKernel];
      TENON_UNROLL
      for (int kx = 0; kx < kKernel; ++kx) taps[kx] = load(taps_at + kx * kLanes);
      TENON_UNROLL
      for (int x = 0; x < kColumns; ++x) {
        Vec v = kPartial ? load_n(row + x * pixel, m) : load(row + x * pixel);
        if constexpr (kGroups) v = permute(v, index + j * kLanes);
        TENON_UNROLL
        for (int i = 0; i < kPixels; ++i) {
          const int kx = x - i * kStride;
          if (kx >= 0 && kx < kKernel) add_product(sums[i], v, taps[kx]);
        }
      }
      taps_at += kKernel * kLanes;
    };
    const auto kernel_row = [&]() __attribute__((always_inline)) {
      if constexpr (kGroups) {
        for (int j = 0; j < group_in; ++j) one_input(j);
      } else {
        one_input(0);
      }
      row += in_row;
    };
    if constexpr (kRows > 0 && !kPartial) {
      TENON_UNROLL
      for (int ky = 0; ky < kRows; ++ky) kernel_row();
    } else {
      for (int ky = 0; ky < rows; ++ky) kernel_row();
    }
    TENON_UNROLL
    for (int i = 0; i < kPixels; ++i) {
      const Vec v = min(high, max(low, sums[i]));
      if constexpr (kPartial) {
        store_n(to + i * pitch + c, v, n);
      } else {
        store(to + i * pitch + c, v);
      }
    }
    w += s.kernel_h * kKernel * group_in * kLanes;
  });
}

// Any kernel, stride, dilation and place: one pixel, taps outside the image left out. kColumns > 0 is the number of
// kernel columns inside the image, told at compile time.
template <int kColumns>
TENON_INLINE void pixel_of(const RowJob& job, int64_t x0, int first, int columns, int64_t c0, int64_t c1,
                           const Sink& sink) {
  const ConvShape& s = job.plan.shape;
  const int64_t step = s.dilation_w * s.in_pixel, row_step = s.dilation_h * s.in_row, w_step = s.kernel_w * kLanes;
  const int group_in = job.plan.group_in;
  const int32_t* const index = job.plan.index;
  const Vec low = set1(sink.low), high = set1(sink.high);
  const float* const in = job.in + job.ky0 * row_step + (x0 + int64_t{first} * s.dilation_w) * s.in_pixel;
  const float* const bias = job.plan.bias;
  float* const to = sink.to - c0;
  const int rows = job.rows;
  const float* w = weights_at(job, c0) + first * kLanes;
  const int64_t w_vector = s.kernel_h * group_in * w_step;
  each_vector(job, c0, c1, [&]<bool kPartial>(int64_t c, int n, int64_t from, int m) __attribute__((always_inline)) {
    Vec sum = load(bias + c);
    const float *row = in + from, *taps = w;
    for (int ky = 0; ky < rows; ++ky, row += row_step) {
      for (int j = 0; j < group_in; ++j, taps += w_step) {
        const auto tap = [&](int kx) __attribute__((always_inline)) {
          Vec v = kPartial ? load_n(row + kx * step, m) : load(row + kx * step);
          if (index) v = permute(v, index + j * kLanes);
          sum = fma(v, load(taps + kx * kLanes), sum);
        };
        if constexpr (kColumns > 0) {
          TENON_UNROLL
          for (int kx = 0; kx < kColumns; ++kx) tap(kx);
        } else {
          for (int kx = 0; kx < columns; ++kx) tap(kx);
        }
      }
    }
    sum = min(high, max(low, sum));
    if constexpr (kPartial) {
      store_n(to + c, sum, n);
    } else {
      store(to + c, sum);
    }
    w += w_vector;
  });
}

void anywhere(const RowJob& job, int64_t x, int64_t c0, int64_t c1, const Sink& sink) {
  const ConvShape& s = job.plan.shape;
  const int64_t dilation = s.dilation_w, x0 = x * s.stride_w - s.pad_left;
  const int first = static_cast<int>(x0 >= 0 ? 0 : smaller(s.kernel_w, (-x0 + dilation - 1) / dilation));
  const int64_t stop = x0 >= s.in_w ? 0 : (s.in_w - x0 + dilation - 1) / dilation;
  const int columns = static_cast<int>(larger(0, smaller(stop, s.kernel_w) - first));
  switch (columns) {
    case 1: return pixel_of<1>(job, x0, first, columns, c0, c1, sink);
    case 2: return pixel_of<2>(job, x0, first, columns, c0, c1, sink);
    case 3: return pixel_of<3>(job, x0, first, columns, c0, c1, sink);
    case 4: return pixel_of<4>(job, x0, first, columns, c0, c1, sink);
    default: return pixel_of<0>(job, x0, first, columns, c0, c1, sink);
  }
}

// Activation and residual of the channels [c, end) of `pixels` pixels from x. One copy for all forms: their strips are
// long enough for a call.
__attribute__((noinline)) void finish_strip(const RowJob& job, int64_t x, int pixels, int64_t c, int64_t end,
                                            const float* sums) {
  const ConvShape& s = job.plan.shape;
  float* const out = job.out + x * s.out_pixel + c;
  with_activation(job.e.act, [&]<class Act>() __attribute__((always_inline)) {
    for (int i = 0; i < pixels; ++i) {
      const float* residual = job.residual ? job.residual + (x + i) * s.res_pixel + c : nullptr;
      finish_pixel<Act>(sums + i * kStrip, static_cast<int>(end - c), job.e, job.e.slopes + c, residual,
                        out + i * s.out_pixel);
    }
  });
}

// Calls compute(c0, c1, sink) for `pixels` pixels from x: straight into the output where the epilogue is a clamp.
template <class F>
TENON_INLINE void finish(const RowJob& job, int64_t x, int pixels, const F& compute) {
  const bool straight = job.e.act == expr::Id::Clip && !job.residual;
  const int64_t out_pixel = job.plan.shape.out_pixel, step = straight ? job.c1 - job.c0 : kStrip;
  alignas(64) float scratch[kGroup * kStrip];
  for (int64_t c = job.c0; c < job.c1; c += step) {
    const int64_t end = smaller(job.c1, c + step);
    compute(c, end, straight ? Sink{job.out + x * out_pixel + c, out_pixel, job.e.alpha, job.e.beta}
                             : Sink{scratch, kStrip, -kInfinity, kInfinity});
    if (!straight) finish_strip(job, x, pixels, c, end, scratch);
  }
}

__attribute__((noinline)) void run_anywhere(const RowJob& job, int64_t x) {
  finish(job, x, 1, [&](int64_t c0, int64_t c1, const Sink& sink) __attribute__((always_inline)) {
    anywhere(job, x, c0, c1, sink);
  });
}

template <int kKernel, int kStride, int kPixels, bool kGroups>
TENON_INLINE void run_inside(const RowJob& job, int64_t x) {
  finish(job, x, kPixels, [&](int64_t c0, int64_t c1, const Sink& sink) __attribute__((always_inline)) {
    if (!kGroups && job.rows == kKernel) {
      inside<kKernel, kStride, kPixels, kGroups ? 0 : kKernel, kGroups>(job, x, c0, c1, sink);
    } else {
      inside<kKernel, kStride, kPixels, 0, kGroups>(job, x, c0, c1, sink);
    }
  });
}

// kKernel columns; 0 stands for any number, without the shared loads.
template <int kKernel, int kStride, bool kGroups>
__attribute__((noinline)) void run_row(const RowJob& job) {
  const ConvShape& s = job.plan.shape;
  int64_t x = 0;
  if constexpr (kKernel > 0) {
    const int64_t begin = smaller(s.out_w, (s.pad_left + kStride - 1) / kStride);
    const int64_t fit = s.in_w + s.pad_left - kKernel;
    const int64_t end = fit < 0 ? 0 : smaller(s.out_w, fit / kStride + 1);
    for (; x < begin; ++x) run_anywhere(job, x);
    for (; x + kGroup <= end; x += kGroup) run_inside<kKernel, kStride, kGroup, kGroups>(job, x);
    if (x + 2 <= end) {
      run_inside<kKernel, kStride, 2, kGroups>(job, x);
      x += 2;
    }
    if (x < end) run_inside<kKernel, kStride, 1, kGroups>(job, x++);
  }
  for (; x < s.out_w; ++x) run_anywhere(job, x);
}

// Output pixels p, p + d, p + 2d … of a row dilated by d are a row of their own without dilation: run_row does each.
template <int kKernel, bool kGroups>
void run_dilated_row(const RowJob& job) {
  const ConvShape& s = job.plan.shape;
  const int64_t d = s.dilation_w;
  DepthwisePlan plan = job.plan;
  ConvShape& part = plan.shape;
  part.dilation_h = part.dilation_w = 1;
  part.in_row = s.in_row * s.dilation_h;
  part.in_pixel = s.in_pixel * d;
  part.out_pixel = s.out_pixel * d;
  part.res_pixel = s.res_pixel * d;
  for (int64_t p = 0; p < smaller(d, s.out_w); ++p) {
    const int64_t pad = larger(0, (s.pad_left - p + d - 1) / d), from = p - s.pad_left + d * pad;
    part.pad_left = static_cast<int>(pad);
    part.out_w = (s.out_w - p + d - 1) / d;
    part.in_w = larger(0, (s.in_w - from + d - 1) / d);
    run_row<kKernel, 1, kGroups>({plan, job.e, job.in + from * s.in_pixel,
                                  job.residual ? job.residual + p * s.res_pixel : nullptr, job.out + p * s.out_pixel,
                                  job.c0, job.c1, job.ky0, job.rows});
  }
}

template <int kKernel, int kStride, bool kGroups>
void run_rows(const DepthwisePlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  if (worker.id >= plan.row_splits * plan.channel_splits) return;
  const int64_t rows = s.batch * s.out_h, vectors = (s.out_c + kLanes - 1) / kLanes;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t begin = rows * part_m / plan.row_splits, end = rows * (part_m + 1) / plan.row_splits;
  const int64_t stop_c = smaller(s.out_c, vectors * (part_n + 1) / plan.channel_splits * kLanes);
  const bool dilated = s.dilation_h != 1 || s.dilation_w != 1;
  for (int64_t c0 = vectors * part_n / plan.channel_splits * kLanes; c0 < stop_c; c0 += plan.chunk) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t image = at / s.out_h, y = at % s.out_h, y0 = y * s.stride_h - s.pad_top, dilation = s.dilation_h;
      const int64_t first = smaller(s.kernel_h, y0 >= 0 ? 0 : (-y0 + dilation - 1) / dilation);
      const int64_t stop = smaller(s.kernel_h, y0 >= s.in_h ? 0 : (s.in_h - y0 + dilation - 1) / dilation);
      const float* row_residual =
          e.residual == Residual::none ? nullptr : residual + image * s.res_image + y * s.res_row;
      const RowJob job = {plan,
                          e,
                          in + image * s.in_image + y0 * s.in_row,
                          row_residual,
                          out + image * s.out_image + y * s.out_row,
                          c0,
                          smaller(stop_c, c0 + plan.chunk),
                          static_cast<int>(first),
                          static_cast<int>(larger(0, stop - first))};
      if constexpr (kKernel > 0 && kStride == 1) {
        if (dilated) {
          run_dilated_row<kKernel, kGroups>(job);
          continue;
        }
      }
      run_row<kKernel, kStride, kGroups>(job);
    }
  }
}

template <int kKernel, int kStride>
void run_form(const DepthwisePlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  (plan.index ? run_rows<kKernel, kStride, true> : run_rows<kKernel, kStride, false>)(plan, in, residual, out, worker);
}

void run(const DepthwisePlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const bool dilated = s.dilation_h != 1 || s.dilation_w != 1;
  const int form = s.stride_w <= (dilated ? 1 : 2) ? s.kernel_w * 10 + s.stride_w : 0;
  switch (form) {
    case 11: return run_form<1, 1>(plan, in, residual, out, worker);
    case 31: return run_form<3, 1>(plan, in, residual, out, worker);
    case 32: return run_form<3, 2>(plan, in, residual, out, worker);
    case 51: return run_form<5, 1>(plan, in, residual, out, worker);
    case 52: return run_form<5, 2>(plan, in, residual, out, worker);
    case 71: return run_form<7, 1>(plan, in, residual, out, worker);
    case 72: return run_form<7, 2>(plan, in, residual, out, worker);
    default: return run_form<0, 0>(plan, in, residual, out, worker);
  }
}

}  // namespace

extern const DepthwiseOps depthwise_ops;
const DepthwiseOps depthwise_ops = {kLanes, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
