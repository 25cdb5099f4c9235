// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_finish.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Where the taps of a window lie; an odd number of them has the last one twice.
struct Taps {
  const uint8_t* at[kMostTaps];
  int64_t steps[kMostTaps];  // to the window of the next output, where both are inside
  int count;

  void set(const Int8DepthwisePlan& plan, const uint8_t* zeros, const uint8_t* image, int64_t y0, int64_t x0) {
    const ConvShape& s = plan.shape;
    count = 0;
    for (int ky = 0; ky < s.kernel_h; ++ky) {
      const int64_t y = y0 + ky * int64_t{s.dilation_h};
      const bool row_inside = y >= 0 && y < s.in_h;
      for (int kx = 0; kx < s.kernel_w; ++kx, ++count) {
        const int64_t x = x0 + kx * int64_t{s.dilation_w};
        at[count] = row_inside && x >= 0 && x < s.in_w ? image + y * s.in_row + x * s.in_pixel : zeros;
        steps[count] = row_inside ? s.stride_w * s.in_pixel : 0;
      }
    }
    if (count % 2) at[count] = at[count - 1], steps[count] = steps[count - 1], ++count;
  }
  void advance() {
    for (int t = 0; t < count; ++t) at[t] += steps[t];
  }
};

// One pixel and the block of channels from c on: taps[t] points at channel 0 of tap t.
template <int kPairs>
TENON_INLINE void sum_taps(const uint8_t* const* taps, int pairs, int64_t c, const int16_t* w, const int32_t* start,
                           int32_t in_zero, int32_t* sums) {
  const IVec zero = iset1(in_zero);
  IVec low = imul(iload(start), zero), high = imul(iload(start + kLanes), zero), more_low = izero(),
       more_high = izero();
  // A pair's channels come in the order of pair_low and pair_high; so do their first sums.
  const auto pair = [&](int p, IVec& l, IVec& h) __attribute__((always_inline)) {
    const IVec a = widen16(taps[2 * p] + c), b = widen16(taps[2 * p + 1] + c);
    add_int16(l, pair_low(a, b), w + p * 2 * kBlock);
    add_int16(h, pair_high(a, b), w + p * 2 * kBlock + kBlock);
  };
  if constexpr (kPairs > 0) {
    TENON_UNROLL
    for (int p = 0; p < kPairs; ++p) pair(p, p % 2 ? more_low : low, p % 2 ? more_high : high);
  } else {
    for (int p = 0; p < pairs; ++p) pair(p, low, high);
  }
  low = iadd(low, more_low);
  high = iadd(high, more_high);
  in_order(low, high);
  istore(sums, low);
  istore(sums + kLanes, high);
}

template <class Act, int kPairs>
void run_pixel(const Int8DepthwisePlan& plan, const Int8Output& o, const Finisher<Act>& finisher,
               const uint8_t* const* taps, int pairs, int64_t c0, int64_t c1, const uint8_t* residual, std::byte* out) {
  const int64_t size = o.inverse_scale ? 1 : 4;
  alignas(64) int32_t sums[kBlock];
  int64_t c = c0;
  const auto finish = [&](int channels) __attribute__((always_inline)) {
    finisher.pixel(sums, {c, channels}, residual ? residual + c : nullptr, out + c * size);
  };
  for (; c + kBlock <= c1; c += kBlock) {
    sum_taps<kPairs>(taps, pairs, c, plan.packed + c * 2 * pairs, plan.start + c, plan.in_zero, sums);
    finish(kBlock);
  }
  if (c == c1) return;
  const uint8_t* at[kMostTaps];
  alignas(64) uint8_t copies[kMostTaps][kBlock];
  for (int t = 0; t < 2 * pairs; ++t) {
    __builtin_memcpy(copies[t], taps[t] + c, c1 - c);
    at[t] = copies[t];
  }
  sum_taps<kPairs>(at, pairs, 0, plan.packed + c * 2 * pairs, plan.start + c, plan.in_zero, sums);
  finish(static_cast<int>(c1 - c));
}

}  // namespace

void run_depthwise8(const Int8DepthwisePlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                    const Worker& worker) {
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.row_splits * plan.channel_splits) return;
  auto* const zeros = reinterpret_cast<uint8_t*>(worker.workspace) + worker.id * plan.zeros_bytes;
  __builtin_memset(zeros, plan.in_zero, static_cast<size_t>(plan.zeros_bytes));
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;
  const int64_t size = output.inverse_scale ? 1 : 4, rows = s.batch * s.out_h;
  const int64_t blocks = (s.out_c + kBlock - 1) / kBlock;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t c0 = blocks * part_n / plan.channel_splits * kBlock;
  const int64_t c1 = smaller(s.out_c, blocks * (part_n + 1) / plan.channel_splits * kBlock);
  const int pairs = (s.kernel_h * s.kernel_w + 1) / 2;
  // Outputs from first_inside to before last_inside have all columns of their windows inside.
  const int64_t reach = (s.kernel_w - 1) * int64_t{s.dilation_w};
  const int64_t first_inside = (s.pad_left + s.stride_w - 1) / s.stride_w,
                last_inside = s.in_w - reach + s.pad_left > 0 ? (s.in_w - reach + s.pad_left - 1) / s.stride_w + 1 : 0;
  with_activation(output.epilogue.act, [&]<class Act>() {
    const Finisher<Act> finisher(output);
    for (int64_t at = rows * part_m / plan.row_splits; at < rows * (part_m + 1) / plan.row_splits; ++at) {
      const int64_t image = at / s.out_h, y = at % s.out_h;
      std::byte* to = static_cast<std::byte*>(out) + (image * s.out_image + y * s.out_row) * size;
      const uint8_t* more = residual ? residual + image * s.res_image + y * s.res_row : nullptr;
      Taps taps;
      for (int64_t x = 0; x < s.out_w; ++x, to += s.out_pixel * size) {
        if (x > first_inside && x < last_inside) taps.advance();
        else taps.set(plan, zeros, in + image * s.in_image, y * s.stride_h - s.pad_top, x * s.stride_w - s.pad_left);
        const uint8_t* r = more ? more + x * s.res_pixel : nullptr;
        if (pairs == 5) run_pixel<Act, 5>(plan, output, finisher, taps.at, pairs, c0, c1, r, to);
        else run_pixel<Act, 0>(plan, output, finisher, taps.at, pairs, c0, c1, r, to);
      }
    }
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
