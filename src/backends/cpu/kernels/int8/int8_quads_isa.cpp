// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of any window, four columns of a row at once.
#include "backends/cpu/kernels/int8/int8_column_finish.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int kVectors = kTogether;
constexpr int64_t kPosition = kVectors * sizeof(IVec);  // bytes of four columns of a block of channels
constexpr int kOutputs = kLanes > 8 ? 4 : 2;            // whose sums fit into registers

// The rows of a block of channels that windows see, four columns of each position interleaved; row y has the place of
// those a window's height away.
struct QuadRows {
  uint8_t* place;
  int64_t bytes, rows;
  TENON_INLINE uint8_t* at(int64_t y) const { return place + (y % rows + rows) % rows * bytes; }
};

// Positions of an image's row, whose first channel `row` points to; null: outside of the image.
template <bool kWhole>
void fill_row(const Int8ColumnPlan& plan, const uint8_t* row, int channels, uint8_t* to) {
  const ConvShape& s = plan.shape;
  if (!row) {
    __builtin_memset(to, plan.in_zero, static_cast<size_t>(plan.positions * kPosition));
    return;
  }
  const IVec outside = iset8(plan.in_zero);
  const auto column = [&](int64_t x) __attribute__((always_inline)) {
    return x < 0 || x >= s.in_w ? outside : load_channels<kWhole>(row + x * s.in_pixel, channels);
  };
  int64_t x = -int64_t{s.pad_left};
  for (int64_t i = 0; i < plan.positions; ++i, x += s.stride_w, to += kPosition) {
    const IVec a = column(x), b = column(x + 1), c = column(x + 2), d = column(x + 3);
    istore(to + 0 * sizeof(IVec), interleaved<0>(a, b, c, d));
    istore(to + 1 * sizeof(IVec), interleaved<1>(a, b, c, d));
    istore(to + 2 * sizeof(IVec), interleaved<2>(a, b, c, d));
    istore(to + 3 * sizeof(IVec), interleaved<3>(a, b, c, d));
  }
}

// A row of outputs of a block of channels.
template <class Act, bool kWhole>
struct QuadRow {
  const Int8ColumnPlan& plan;
  const int8_t* weights;
  const ColumnFinish<Act, kWhole> finish;
  IVec start[kVectors];

  TENON_INLINE QuadRow(const Int8ColumnPlan& p, const Int8Output& o, int64_t place, int channels)
      : plan(p), weights(p.packed + place * p.units * 4), finish(p, o, place, channels) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) start[v] = imul(iload(p.start + place + v * kLanes), iset1(p.in_zero));
  }

  template <int kCount>
  TENON_INLINE void outputs(const QuadRows& rows, int64_t top, int64_t x, uint8_t* out) const {
    const ConvShape& s = plan.shape;
    IVec sums[kCount][kVectors];
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[i][v] = start[v];
    const int8_t* w = weights;
    for (int ky = 0; ky < s.kernel_h; ++ky) {
      const uint8_t* from = rows.at(top + ky) + x * kPosition;
      for (int quad = 0; quad < plan.quads; ++quad, from += 4 / s.stride_w * kPosition) {
        TENON_UNROLL
        for (int v = 0; v < kVectors; ++v, w += sizeof(IVec)) {
          const IVec by = iload(w);
          TENON_UNROLL
          for (int i = 0; i < kCount; ++i)
            add_dots(sums[i][v], iload(from + i * kPosition + v * static_cast<int64_t>(sizeof(IVec))), by);
        }
      }
    }
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) finish(sums[i], out + i * s.out_pixel);
  }

  void run(const QuadRows& rows, int64_t top, uint8_t* out) const {
    const ConvShape& s = plan.shape;
    int64_t x = 0;
    for (; x + kOutputs <= s.out_w; x += kOutputs) outputs<kOutputs>(rows, top, x, out + x * s.out_pixel);
    for (; x < s.out_w; ++x) outputs<1>(rows, top, x, out + x * s.out_pixel);
  }
};

template <class Act, bool kWhole>
void run_block(const Int8ColumnPlan& plan, const Int8Output& o, const uint8_t* in, uint8_t* out, int64_t c,
               int channels, int64_t first, int64_t last, const QuadRows& rows) {
  const ConvShape& s = plan.shape;
  const QuadRow<Act, kWhole> row(plan, o, c, channels);
  int64_t filled = 0, image = -1;  // rows of the image before it are there
  for (int64_t at = first; at < last; ++at) {
    const int64_t y = at % s.out_h, top = y * s.stride_h - s.pad_top;
    if (at / s.out_h != image) image = at / s.out_h, filled = top;
    for (filled = filled < top ? top : filled; filled < top + s.kernel_h; ++filled) {
      const bool inside = filled >= 0 && filled < s.in_h;
      fill_row<kWhole>(plan, inside ? in + image * s.in_image + filled * s.in_row + c : nullptr, channels,
                       rows.at(filled));
    }
    row.run(rows, top, out + image * s.out_image + y * s.out_row + c);
  }
}

template <class Act>
void run_blocks(const Int8ColumnPlan& plan, const Int8Output& o, const uint8_t* in, uint8_t* out,
                const Worker& worker) {
  constexpr int kChannels = kVectors * kLanes;
  const ConvShape& s = plan.shape;
  const int64_t all = s.batch * s.out_h, blocks = (s.out_c + kChannels - 1) / kChannels;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n1 = blocks * (part_n + 1) / plan.channel_splits;
  const int64_t first = all * part_m / plan.row_splits, last = all * (part_m + 1) / plan.row_splits;
  const QuadRows rows{reinterpret_cast<uint8_t*>(worker.workspace) + worker.id * plan.worker_bytes,
                      plan.positions * kPosition, s.kernel_h};
  for (int64_t n = blocks * part_n / plan.channel_splits; n < n1; ++n) {
    const int64_t c = n * kChannels, left = s.out_c - c;
    if (left >= kChannels) run_block<Act, true>(plan, o, in, out, c, kChannels, first, last, rows);
    else run_block<Act, false>(plan, o, in, out, c, static_cast<int>(left), first, last, rows);
  }
}

}  // namespace

void run_quads8(const Int8ColumnPlan& plan, const uint8_t* in, uint8_t* out, const Worker& worker) {
  if (worker.id >= plan.row_splits * plan.channel_splits) return;
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.in_steps) return run_blocks<expr::Identity>(plan, output, in, out, worker);
  with_activation(output.epilogue.act, [&]<class Act>() { run_blocks<Act>(plan, output, in, out, worker); });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
