// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/depthwise_rows.h"

#include <type_traits>

#include "backends/cpu/kernels/f32/epilogue.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Pixels that are computed together at most: their sums, a tap and an input are held in registers.
constexpr int kWidest = kLanes == 16 ? 16 : 12;

// A row that windows see, of the first vector of the block: columns from the first that the row's first pixel sees.
struct SeenRow {
  const float *in, *weights;
};

// A block of channels of one worker.
struct Block {
  const DepthwiseRowsPlan& plan;
  const Epilogue& e;
  float *held, *scratch;
  int64_t c0, channels;  // the first, and how many
  int64_t vectors;       // that hold them
};

// Images that are computed together: the frame that the first begins with among those that there are, and how many
// these are.
struct Images {
  int64_t count, first, frames;
  TENON_INLINE bool has(int64_t frame) const { return frames == 0 || (first + frame >= 0 && first + frame < frames); }
};

// A row of output pixels of a block.
struct RowJob {
  const Block& block;
  const SeenRow* rows;
  int count;      // of rows
  int64_t shift;  // floats from a row of the first image to that of this one
  float* to;  // of channel c0 of the first pixel
  int64_t pitch;
  const float* residual;  // of channel c0 of the first pixel; null: none
  bool finished;          // by the function that sums; else sums go to scratch first
};

inline float* row_at(const Block& block, int64_t frame, int64_t row) {
  const DepthwiseRowsPlan& plan = block.plan;
  return block.held + (frame * plan.held + row % plan.held) * plan.vectors * plan.columns * kLanes;
}

// Copies a row of an image as [vector][column][lane].
void copy_row(const Block& block, const float* from, float* to) {
  const ConvShape& s = block.plan.shape;
  const int64_t columns = block.plan.columns, pitch = columns * kLanes, begin = smaller(columns, s.pad_left),
                end = larger(begin, smaller(columns, s.pad_left + s.in_w)), whole = block.channels / kLanes;
  const int rest = static_cast<int>(block.channels % kLanes);
  for (int64_t v = 0; v < block.vectors; ++v) {
    for (int64_t x = 0; x < begin; ++x) store(to + v * pitch + x * kLanes, zero());
    for (int64_t x = end; x < columns; ++x) store(to + v * pitch + x * kLanes, zero());
  }
  to += begin * kLanes;
  for (int64_t x = begin; x < end; ++x, from += s.in_pixel, to += kLanes) {
    for (int64_t v = 0; v < whole; ++v) store(to + v * pitch, load(from + v * kLanes));
    if (rest) store(to + whole * pitch, load_n(from + whole * kLanes, rest));
  }
}

// An activation; Clip stands for every clamp, by channel, too.
template <class Act>
TENON_INLINE Vec bounded(Vec sum, Vec low, Vec high, const Epilogue& e) {
  if constexpr (std::is_same_v<Act, expr::Clip>) return min(high, max(low, sum));
  else return activate<Act>(sum, e, zero());
}

// Residual and activation of the first `used` of kPixels pixels from x, of vector v.
template <class Act, int kPixels>
TENON_INLINE void finish_and_store(const RowJob& job, int64_t v, int64_t x, int used, Vec (&sums)[kPixels]) {
  const Block& block = job.block;
  const Epilogue& e = block.e;
  const bool bounds = e.act == expr::Id::Max, before = e.residual == Residual::before;
  const Vec low = bounds ? load(e.slopes + block.c0 + v * kLanes) : set1(e.alpha),
            high = set1(bounds ? kInfinity : e.beta);
  const int n = static_cast<int>(smaller(kLanes, block.channels - v * kLanes));
  const int64_t res_pixel = block.plan.shape.res_pixel;
  float* const to = job.to + x * job.pitch + v * kLanes;
  const float* const residual = job.residual ? job.residual + x * res_pixel + v * kLanes : nullptr;
  if (used == kPixels && n == kLanes) {
    TENON_UNROLL
    for (int i = 0; i < kPixels; ++i) {
      const Vec r = residual ? load(residual + i * res_pixel) : zero();
      if (residual && before) sums[i] = add(sums[i], r);
      sums[i] = bounded<Act>(sums[i], low, high, e);
      if (residual && !before) sums[i] = add(sums[i], r);
      store(to + i * job.pitch, sums[i]);
    }
    return;
  }
  alignas(64) float spilled[kPixels * kLanes];
  TENON_UNROLL
  for (int i = 0; i < kPixels; ++i) store(spilled + i * kLanes, sums[i]);
  for (int i = 0; i < used; ++i) {
    const Vec r = residual ? load_n(residual + i * res_pixel, n) : zero();
    Vec sum = load(spilled + i * kLanes);
    if (residual && before) sum = add(sum, r);
    sum = bounded<Act>(sum, low, high, e);
    if (residual && !before) sum = add(sum, r);
    store_n(to + i * job.pitch, sum, n);
  }
}

// The first `used` of kPixels pixels from x, of vector v; kStride is 0 where the distance of two is known only now.
template <class Act, int kColumns, int kStride, int kPixels>
TENON_INLINE void pixels(const RowJob& job, int64_t v, int64_t x, int used) {
  const DepthwiseRowsPlan& plan = job.block.plan;
  const ConvShape& s = plan.shape;
  const int64_t stride = kStride ? kStride : s.stride_w, next = int64_t{s.dilation_w} * kLanes;
  const int64_t offset = job.shift + (v * plan.columns + x * stride) * kLanes;
  const int64_t w_offset = v * s.slices * s.kernel_h * s.kernel_w * kLanes;
  Vec sums[kPixels];
  TENON_UNROLL
  for (int i = 0; i < kPixels; ++i) sums[i] = load(plan.bias + job.block.c0 + v * kLanes);
  for (int r = 0; r < job.count; ++r) {
    const float *in = job.rows[r].in + offset, *w = job.rows[r].weights + w_offset;
    if constexpr (kColumns > 0) {
      TENON_UNROLL
      for (int kx = 0; kx < kColumns; ++kx) {
        const Vec tap = load(w + kx * kLanes);
        TENON_UNROLL
        for (int i = 0; i < kPixels; ++i) add_product(sums[i], load(in + (i * kStride + kx) * kLanes), tap);
      }
    } else {
      for (int kx = 0; kx < s.kernel_w; ++kx, w += kLanes, in += next) {
        const Vec tap = load(w);
        TENON_UNROLL
        for (int i = 0; i < kPixels; ++i) add_product(sums[i], load(in + i * stride * kLanes), tap);
      }
    }
  }
  if (!job.finished) {
    TENON_UNROLL
    for (int i = 0; i < kPixels; ++i) store(job.block.scratch + (x + i) * kLanes, sums[i]);
    return;
  }
  finish_and_store<Act>(job, v, x, used, sums);
}

// Pixels that are computed together from x on: as many as are left, else eights and fours.
constexpr int together(int64_t left, int wide) { return left > 12 ? wide : left > 4 ? 8 : 4; }

template <class Act, int kColumns, int kStride, int kWide>
__attribute__((noinline)) void sum_row(const RowJob& job, int64_t v) {
  const int64_t width = job.block.plan.shape.out_w;
  for (int64_t x = 0; x < width;) {
    const int count = together(width - x, kWide), used = static_cast<int>(smaller(count, width - x));
    if (count == kWide) pixels<Act, kColumns, kStride, kWide>(job, v, x, used);
    else if (count == 8) pixels<Act, kColumns, kStride, 8>(job, v, x, used);
    else pixels<Act, kColumns, kStride, 4>(job, v, x, used);
    x += count;
  }
}

using SumRow = void (*)(const RowJob&, int64_t v);

constexpr bool has_wholes(int64_t width) { return kLanes == 16 && width % 14 == 0; }

template <int kColumns, int kStride, class Act = expr::Clip>
SumRow form_of(int64_t width) {
  if constexpr (kLanes == 16)
    if (has_wholes(width)) return sum_row<Act, kColumns, kStride, 14>;
  return sum_row<Act, kColumns, kStride, kWidest>;
}

int64_t computed(int64_t width) {
  int64_t x = 0;
  while (x < width) x += together(width - x, has_wholes(width) ? 14 : kWidest);
  return x;
}

// Those that finish sums by more than a clamp; null: none.
SumRow finishing_form_of(const ConvShape& s, expr::Id act) {
  if (s.dilation_w != 1 || s.stride_w != 1 || (s.kernel_w != 3 && s.kernel_w != 5)) return nullptr;
  if (act == expr::Id::Silu)
    return s.kernel_w == 3 ? form_of<3, 1, expr::Silu>(s.out_w) : form_of<5, 1, expr::Silu>(s.out_w);
  if (act != expr::Id::HardSwish) return nullptr;
  return s.kernel_w == 3 ? form_of<3, 1, expr::HardSwish>(s.out_w) : form_of<5, 1, expr::HardSwish>(s.out_w);
}

SumRow form_of(const ConvShape& s) {
  if (s.dilation_w != 1 || s.stride_w > 2) return form_of<0, 0>(s.out_w);
  switch (s.kernel_w * 10 + s.stride_w) {
    case 31: return form_of<3, 1>(s.out_w);
    case 51: return form_of<5, 1>(s.out_w);
    case 71: return form_of<7, 1>(s.out_w);
    case 91: return form_of<9, 1>(s.out_w);
    default: return s.stride_w == 1 ? form_of<0, 1>(s.out_w) : form_of<0, 2>(s.out_w);
  }
}

// Activation and residual of a vector of a row whose sums lie in scratch.
__attribute__((noinline)) void finish_row(const RowJob& job, int64_t v) {
  const Block& block = job.block;
  const ConvShape& s = block.plan.shape;
  const int channels = static_cast<int>(smaller(kLanes, block.channels - v * kLanes));
  const float* const residual = job.residual ? job.residual + v * kLanes : nullptr;
  with_activation(
      block.e.act, [&]<class Act>() __attribute__((always_inline)) {
        for (int64_t x = 0; x < s.out_w; ++x)
          finish_pixel<Act>(block.scratch + x * kLanes, channels, block.e, block.e.slopes + block.c0 + v * kLanes,
                            residual ? residual + x * s.res_pixel : nullptr, job.to + v * kLanes + x * job.pitch);
      });
}

// The rows that pixels of row y of the first image see, and their weights, be the frames there or not; returns how many
// of each slice.
int rows_of(const Block& block, int64_t top, SeenRow* rows) {
  const DepthwiseRowsPlan& plan = block.plan;
  const ConvShape& s = plan.shape;
  const float* weights = plan.packed + block.c0 * s.slices * s.kernel_h * s.kernel_w;
  int count = 0, of_slice = 0;
  for (int64_t slice = 0; slice < s.slices; ++slice) {
    for (int64_t ky = 0; ky < s.kernel_h; ++ky, weights += int64_t{s.kernel_w} * kLanes) {
      const int64_t at = top + ky * s.dilation_h;
      if (at >= 0 && at < s.in_h) rows[count++] = {row_at(block, slice * plan.slice_frames, at), weights};
    }
    if (slice == 0) of_slice = count;
  }
  return of_slice;
}

// Which of an image's slices are there.
struct Slices {
  int begin, end;
};
Slices slices_of(const DepthwiseRowsPlan& plan, const Images& images, int64_t image) {
  const int slices = static_cast<int>(plan.shape.slices);
  const auto has = [&](int slice) { return images.has(image * plan.image_frames + slice * plan.slice_frames); };
  Slices found{0, slices};
  while (found.begin < slices && !has(found.begin)) ++found.begin;
  while (found.end > found.begin && !has(found.end - 1)) --found.end;
  return found;
}

// Fetches part v of `parts` of a row that is copied next.
TENON_INLINE void fetch_part(const ConvShape& s, const float* row, int64_t v, int64_t parts) {
  const int64_t floats = s.in_w * s.in_pixel, end = floats * (v + 1) / parts;
  for (int64_t at = floats * v / parts; at < end; at += 16)
    _mm_prefetch(reinterpret_cast<const char*>(row + at), _MM_HINT_T1);
}

// Rows [y, stop) of images that are computed together, whose first frame `in` is, be it there or not.
void run_images(const Block& block, const float* in, const float* residual, float* out, const Images& images, int64_t y,
                int64_t stop) {
  const DepthwiseRowsPlan& plan = block.plan;
  const ConvShape& s = plan.shape;
  const SumRow finishing = finishing_form_of(s, block.e.act), sum = finishing ? finishing : form_of(s);
  const bool finished = finishing || block.e.act == expr::Id::Clip || block.e.act == expr::Id::Max;
  const int64_t frames = (images.count - 1) * plan.image_frames + (s.slices - 1) * plan.slice_frames + 1;
  const int64_t image_floats = plan.image_frames * plan.held * plan.vectors * plan.columns * kLanes;
  SeenRow rows[DepthwiseRowsPlan::most_rows];
  for (int64_t copied = 0; y < stop; ++y) {
    const int64_t top = y * s.stride_h - s.pad_top, end = larger(0, smaller(s.in_h, top + plan.held));
    for (copied = larger(copied, top); copied < end; ++copied)
      for (int64_t frame = 0; frame < frames; ++frame) {
        if (!images.has(frame)) continue;
        copy_row(block, in + frame * plan.frame + copied * s.in_row, row_at(block, frame, copied));
      }
    const int of_slice = rows_of(block, top, rows);
    // Images that follow each other see most of the same rows of a vector of channels.
    for (int64_t v = 0; v < block.vectors; ++v)
      for (int64_t image = 0; image < images.count; ++image) {
        const Slices slices = slices_of(plan, images, image);
        const RowJob job = {block,
                            rows + slices.begin * of_slice,
                            (slices.end - slices.begin) * of_slice,
                            image * image_floats,
                            out + image * s.out_image + y * s.out_row,
                            s.out_pixel,
                            residual ? residual + image * s.res_image + y * s.res_row : nullptr,
                            finished};
        if (images.count > 1 && copied < s.in_h && y + 1 < stop && images.has(image))
          fetch_part(s, in + image * plan.frame + copied * s.in_row, v, block.vectors);
        sum(job, v);
        if (!finished) finish_row(job, v);
      }
  }
}

void run(const DepthwiseRowsPlan& plan, const float* in, const float* residual, float* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  const Epilogue e = normalised(plan.epilogue);
  const int64_t groups = (s.batch + plan.images - 1) / plan.images, rows = groups * s.out_h,
                vectors = (s.out_c + kLanes - 1) / kLanes, blocks = (vectors + plan.vectors - 1) / plan.vectors;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t begin = rows * part_m / plan.row_splits, end = rows * (part_m + 1) / plan.row_splits;
  auto* const held = reinterpret_cast<float*>(worker.workspace + static_cast<size_t>(worker.id) * plan.worker_bytes);
  float* const scratch = held + plan.frames * plan.held * plan.vectors * plan.columns * kLanes;
  for (int64_t b = blocks * part_n / plan.channel_splits; b < blocks * (part_n + 1) / plan.channel_splits; ++b) {
    const int64_t c0 = b * plan.vectors * kLanes;
    const Block block{plan,
                      e,
                      held,
                      scratch,
                      c0,
                      smaller(s.out_c - c0, plan.vectors * kLanes),
                      smaller(vectors - b * plan.vectors, plan.vectors)};
    for (int64_t at = begin; at < end;) {
      const int64_t image = at / s.out_h * plan.images, y = at % s.out_h, stop = smaller(s.out_h, y + end - at);
      const Images images{smaller(plan.images, s.batch - image), image * plan.image_frames - s.frames_before, s.frames};
      run_images(block, in + image * s.in_image - s.frames_before * s.frame + c0,
                 e.residual == Residual::none ? nullptr : residual + image * s.res_image + c0,
                 out + image * s.out_image + c0, images, y, stop);
      at += stop - y;
    }
  }
}

}  // namespace

extern const DepthwiseRowsOps depthwise_rows_ops;
const DepthwiseRowsOps depthwise_rows_ops = {kLanes, computed, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
