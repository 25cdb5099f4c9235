// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8_column_finish.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int kVectors = kTogether, kTaps = 3;

// A column of three rows: the three bytes of a channel and a zero in 32 bits, channels as column_place has them.
struct Column {
  IVec v[kVectors];
};

// Where the rows of a window lie; those outside are one vector of the zero point.
struct WindowRows {
  const uint8_t* at[kTaps];
  int64_t step[kTaps];  // from pixel to pixel

  template <bool kWhole>
  TENON_INLINE Column column(int64_t x, int channels) const {
    IVec r[kTaps];
    TENON_UNROLL
    for (int i = 0; i < kTaps; ++i) r[i] = load_channels<kWhole>(at[i] + x * step[i], channels);
    return {interleaved<0>(r[0], r[1], r[2]), interleaved<1>(r[0], r[1], r[2]), interleaved<2>(r[0], r[1], r[2]),
            interleaved<3>(r[0], r[1], r[2])};
  }
};

// The outputs of one row for up to a block of channels, whose lists begin at `place`.
template <class Act, bool kWhole>
void run_row(const Int8ColumnPlan& plan, const Int8Output& o, const WindowRows& rows, int64_t place, int channels,
             uint8_t* out) {
  const ConvShape& s = plan.shape;
  const int8_t* const weights = plan.packed + place * kTaps * 4;
  const IVec in_zero = iset1(plan.in_zero);
  Column outside;
  TENON_UNROLL
  for (int v = 0; v < kVectors; ++v) outside.v[v] = iset8(plan.in_zero);
  const auto column = [&](int64_t x) __attribute__((always_inline)) {
    return x < 0 || x >= s.in_w ? outside : rows.column<kWhole>(x, channels);
  };
  IVec start[kVectors];
  TENON_UNROLL
  for (int v = 0; v < kVectors; ++v) start[v] = imul(iload(plan.start + place + v * kLanes), in_zero);
  const ColumnFinish<Act, kWhole> finish(plan, o, place, channels);
  int64_t x0 = -int64_t{s.pad_left};
  Column a = column(x0), b = column(x0 + 1);
  for (int64_t x = 0; x < s.out_w; ++x, x0 += s.stride_w, out += s.out_pixel) {
    const Column c = column(x0 + 2);
    IVec sums[kVectors];
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = start[v];
      add_dots(sums[v], a.v[v], iload(weights + (0 * kVectors + v) * kLanes * 4));
      add_dots(sums[v], b.v[v], iload(weights + (1 * kVectors + v) * kLanes * 4));
      add_dots(sums[v], c.v[v], iload(weights + (2 * kVectors + v) * kLanes * 4));
    }
    finish(sums, out);
    if (s.stride_w == 1) {
      a = b;
      b = c;
    } else {
      a = c;
      if (x + 1 < s.out_w) b = column(x0 + s.stride_w + 1);
    }
  }
}

template <class Act>
void run_rows(const Int8ColumnPlan& plan, const Int8Output& o, const uint8_t* in, uint8_t* out, const Worker& worker) {
  constexpr int kChannels = kVectors * kLanes;
  const ConvShape& s = plan.shape;
  const int64_t rows = s.batch * s.out_h, blocks = (s.out_c + kChannels - 1) / kChannels;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = blocks * part_n / plan.channel_splits, n1 = blocks * (part_n + 1) / plan.channel_splits;
  alignas(64) uint8_t zeros[kChannels];
  __builtin_memset(zeros, plan.in_zero, kChannels);
  for (int64_t row = rows * part_m / plan.row_splits; row < rows * (part_m + 1) / plan.row_splits; ++row) {
    const int64_t image = row / s.out_h, y = row % s.out_h;
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t c = n * kChannels, left = s.out_c - c;
      WindowRows window;
      for (int i = 0; i < kTaps; ++i) {
        const int64_t from = y * s.stride_h - s.pad_top + i;
        const bool inside = from >= 0 && from < s.in_h;
        window.at[i] = inside ? in + image * s.in_image + from * s.in_row + c : zeros;
        window.step[i] = inside ? s.in_pixel : 0;
      }
      uint8_t* const to = out + image * s.out_image + y * s.out_row + c;
      if (left >= kChannels) run_row<Act, true>(plan, o, window, c, kChannels, to);
      else run_row<Act, false>(plan, o, window, c, static_cast<int>(left), to);
    }
  }
}

void run(const Int8ColumnPlan& plan, const uint8_t* in, uint8_t* out, const Worker& worker) {
  if (worker.id >= plan.row_splits * plan.channel_splits) return;
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.in_steps) return run_rows<expr::Identity>(plan, output, in, out, worker);
  with_activation(output.epilogue.act, [&]<class Act>() { run_rows<Act>(plan, output, in, out, worker); });
}

}  // namespace

extern const Int8ColumnOps int8_column_ops;
const Int8ColumnOps int8_column_ops = {kLanes, run, run_quads8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
