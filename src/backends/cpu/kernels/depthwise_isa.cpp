#include "backends/cpu/kernels/depthwise.h"
#include "backends/cpu/kernels/epilogue.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// One row of output pixels and the channels [c0, c1); `ky0` to `ky1` are the kernel rows inside the picture.
struct RowJob {
  const DepthwisePlan& plan;
  const Epilogue& e;
  const float* in;  // input row of tap row 0, column 0 (may lie outside; only rows ky0.. are read)
  const float* residual;
  float* out;
  int64_t c0, c1;
  int ky0, ky1;
};

template <Activation kAct, bool kPartial>
TENON_INLINE void finish(const RowJob& job, Vec v, int64_t x, int64_t c, int n) {
  const ConvShape& s = job.plan.shape;
  Vec r = zero();
  if (job.residual) {
    const float* p = job.residual + x * s.res_pixel + c;
    r = kPartial ? load_n(p, n) : load(p);
  }
  if (job.e.residual == Residual::before) v = add(v, r);
  v = activate<kAct>(v, job.e);
  if (job.e.residual == Residual::after) v = add(v, r);
  float* o = job.out + x * s.out_pixel + c;
  if constexpr (kPartial) {
    store_n(o, v, n);
  } else {
    store(o, v);
  }
}

// kPixels neighbouring pixels whose windows lie inside the picture in x; they share their input loads.
template <Activation kAct, int kKernel, int kStride, int kPixels, bool kPartial>
TENON_INLINE void inner_pixels(const RowJob& job, int64_t x, int64_t c, int n) {
  const ConvShape& s = job.plan.shape;
  constexpr int kColumns = (kPixels - 1) * kStride + kKernel;
  const int64_t pixel = s.in_pixel, channels = job.plan.channels;
  Vec sums[kPixels];
  TENON_UNROLL
  for (int i = 0; i < kPixels; ++i) sums[i] = load(job.plan.bias + c);
  const float* row = job.in + job.ky0 * s.in_row + (x * kStride - s.pad_left) * pixel + c;
  const float* w = job.plan.packed + job.ky0 * kKernel * channels + c;
  for (int ky = job.ky0; ky < job.ky1; ++ky, row += s.in_row, w += kKernel * channels) {
    Vec taps[kKernel];
    TENON_UNROLL
    for (int kx = 0; kx < kKernel; ++kx) taps[kx] = load(w + kx * channels);
    TENON_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const Vec v = kPartial ? load_n(row + j * pixel, n) : load(row + j * pixel);
      TENON_UNROLL
      for (int i = 0; i < kPixels; ++i) {
        const int kx = j - i * kStride;
        if (kx >= 0 && kx < kKernel) sums[i] = fma(v, taps[kx], sums[i]);
      }
    }
  }
  TENON_UNROLL
  for (int i = 0; i < kPixels; ++i) finish<kAct, kPartial>(job, sums[i], x + i, c, n);
}

template <Activation kAct, int kKernel, int kStride, int kPixels>
TENON_INLINE void inner_channels(const RowJob& job, int64_t x) {
  int64_t c = job.c0;
  for (; c + kLanes <= job.c1; c += kLanes) inner_pixels<kAct, kKernel, kStride, kPixels, false>(job, x, c, kLanes);
  if (c < job.c1) {
    inner_pixels<kAct, kKernel, kStride, kPixels, true>(job, x, c, static_cast<int>(job.c1 - c));
  }
}

// Any kernel, stride, dilation and place: one pixel, taps outside the picture left out.
template <Activation kAct>
TENON_INLINE void any_pixel(const RowJob& job, int64_t x) {
  const ConvShape& s = job.plan.shape;
  const int64_t x0 = x * s.stride_w - s.pad_left;
  for (int64_t c = job.c0; c < job.c1; c += kLanes) {
    const int n = static_cast<int>(smaller(kLanes, job.c1 - c));
    Vec sum = load(job.plan.bias + c);
    for (int ky = job.ky0; ky < job.ky1; ++ky) {
      for (int kx = 0; kx < s.kernel_w; ++kx) {
        const int64_t ix = x0 + int64_t{kx} * s.dilation_w;
        if (ix < 0 || ix >= s.in_w) continue;
        const float* p = job.in + ky * s.dilation_h * s.in_row + ix * s.in_pixel + c;
        const Vec v = n == kLanes ? load(p) : load_n(p, n);
        sum = fma(v, load(job.plan.packed + (ky * s.kernel_w + kx) * job.plan.channels + c), sum);
      }
    }
    if (n == kLanes) {
      finish<kAct, false>(job, sum, x, c, n);
    } else {
      finish<kAct, true>(job, sum, x, c, n);
    }
  }
}

// kKernel = 0 stands for any shape, without the shared loads.
template <Activation kAct, int kKernel, int kStride>
__attribute__((noinline)) void run_row(const RowJob& job) {
  const ConvShape& s = job.plan.shape;
  int64_t x = 0;
  if constexpr (kKernel > 0) {
    constexpr int kPixels = 4;
    const int64_t begin = smaller(s.out_w, (s.pad_left + kStride - 1) / kStride);
    const int64_t fit = s.in_w + s.pad_left - kKernel;
    const int64_t end = fit < 0 ? 0 : smaller(s.out_w, fit / kStride + 1);
    for (; x < begin; ++x) any_pixel<kAct>(job, x);
    for (; x + kPixels <= end; x += kPixels) inner_channels<kAct, kKernel, kStride, kPixels>(job, x);
    for (; x + 2 <= end; x += 2) inner_channels<kAct, kKernel, kStride, 2>(job, x);
  }
  for (; x < s.out_w; ++x) any_pixel<kAct>(job, x);
}

template <int kKernel, int kStride>
void run_rows(const DepthwisePlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  const int64_t rows = s.batch * s.out_h, items = rows * plan.chunks;
  const int64_t end = items * (worker.id + 1) / worker.count;
  for (int64_t item = items * worker.id / worker.count; item < end; ++item) {
    const int64_t chunk = item / rows, image = item % rows / s.out_h, y = item % rows % s.out_h;
    const int64_t y0 = y * s.stride_h - s.pad_top, dilation = s.dilation_h;
    const int64_t first = y0 >= 0 ? 0 : (-y0 + dilation - 1) / dilation;
    const int64_t stop = y0 >= s.in_h ? 0 : (s.in_h - y0 + dilation - 1) / dilation;
    const int64_t c0 = chunk * plan.chunk;
    const RowJob job{plan,
                     e,
                     in + image * s.in_image + y0 * s.in_row,
                     e.residual == Residual::none ? nullptr : residual + image * s.res_image + y * s.res_row,
                     out + image * s.out_image + y * s.out_row,
                     c0,
                     smaller(s.out_c, c0 + plan.chunk),
                     static_cast<int>(smaller(first, s.kernel_h)),
                     static_cast<int>(larger(smaller(first, s.kernel_h), smaller(stop, s.kernel_h)))};
    with_activation(e.act, [&]<Activation kAct>() __attribute__((always_inline)) { run_row<kAct, kKernel, kStride>(job); });
  }
}

void run(const DepthwisePlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const bool square = s.kernel_h == s.kernel_w && s.dilation_h == 1 && s.dilation_w == 1;
  const int form = square && s.stride_w <= 2 ? s.kernel_w * 10 + s.stride_w : 0;
  switch (form) {
    case 31: return run_rows<3, 1>(plan, in, residual, out, worker);
    case 32: return run_rows<3, 2>(plan, in, residual, out, worker);
    case 51: return run_rows<5, 1>(plan, in, residual, out, worker);
    case 52: return run_rows<5, 2>(plan, in, residual, out, worker);
    default: return run_rows<0, 0>(plan, in, residual, out, worker);
  }
}

}  // namespace

extern const DepthwiseOps depthwise_ops;
const DepthwiseOps depthwise_ops = {kLanes, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
