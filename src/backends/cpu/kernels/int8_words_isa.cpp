#include "backends/cpu/kernels/int8_words.h"

#include "backends/cpu/kernels/int8_finish.h"
#include "backends/cpu/kernels/int8_micro.h"
#include "backends/cpu/kernels/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

void run_winograd8(const Int8WinogradPlan& plan, const uint8_t* in, const uint8_t* residual, void* out,
                   const Worker& worker);  // in int8_winograd_isa.cpp

namespace {

struct Place {
  int64_t out, residual;
};

// count words of bytes less the zero point.
TENON_INLINE int16_t* copy_words(int16_t* to, const uint8_t* from, int64_t count, int32_t zero_point) {
  const IVec zero = iset16(zero_point);
  int64_t at = 0;
  for (; at + 2 * kLanes <= count; at += 2 * kLanes) istore(to + at, isub16(widen16(from + at), zero));
  const __m128i eight = _mm_set1_epi16(static_cast<int16_t>(zero_point));
  for (; at + 8 <= count; at += 8)
    _mm_storeu_si128((__m128i*)(to + at),
                     _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)(from + at))), eight));
  for (; at < count; ++at) to[at] = static_cast<int16_t>(from[at] - zero_point);
  return to + count;
}

TENON_INLINE int16_t* copy_zeros(int16_t* to, int64_t count) {
  __builtin_memset(to, 0, static_cast<size_t>(count) * sizeof(int16_t));
  return to + count;
}

// The window whose first tap lies at row y0, column x0 of an image; `in` is its first channel.
TENON_INLINE void copy_window(const WordsPlan& plan, const uint8_t* in, int64_t y0, int64_t x0, int16_t* to) {
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.groups;
  const bool touching = s.dilation_w == 1 && s.in_pixel == c;
  int16_t* const end = to + plan.k;
  for (int ky = 0; ky < s.kernel_h; ++ky) {
    const int64_t y = y0 + int64_t{ky} * s.dilation_h;
    if (y < 0 || y >= s.in_h) {
      to = copy_zeros(to, s.kernel_w * c);
      continue;
    }
    const uint8_t* const row = in + y * s.in_row;
    if (touching) {
      const int64_t left = smaller(s.kernel_w, x0 < 0 ? -x0 : 0), last = smaller(s.kernel_w, s.in_w - x0);
      to = copy_zeros(to, left * c);
      if (last > left) to = copy_words(to, row + (x0 + left) * c, (last - left) * c, plan.in_zero);
      to = copy_zeros(to, (s.kernel_w - (last > left ? last : left)) * c);
      continue;
    }
    for (int kx = 0; kx < s.kernel_w; ++kx) {
      const int64_t x = x0 + int64_t{kx} * s.dilation_w;
      to = x < 0 || x >= s.in_w ? copy_zeros(to, c) : copy_words(to, row + x * s.in_pixel, c, plan.in_zero);
    }
  }
  copy_zeros(to, end - to);
}

__attribute__((noinline)) void copy_windows(const WordsPlan& plan, const uint8_t* in, int64_t first, int64_t count,
                                            int16_t* words) {
  const ConvShape& s = plan.shape;
  PixelCursor cursor(s, first);
  for (int64_t i = 0; i < count; ++i, cursor.next())
    copy_window(plan, in + cursor.image * s.in_image, cursor.y * s.stride_h - s.pad_top,
                cursor.x * s.stride_w - s.pad_left, words + i * plan.k);
}

struct Job : BlockOfChannels {
  const int16_t* weights;
  const uint8_t* residual;
  std::byte* out;
};

// All of K over `tiles` tiles of R pixels.
template <int R>
__attribute__((noinline)) void run_tiles(const WordsPlan& plan, const Int8Output& o, const Job& job,
                                         const int16_t* words, const Place* places, int64_t tiles, int32_t* sums) {
  int64_t k = 0;
  for (; plan.k - k > plan.k_block; k += plan.k_block)
    for (int64_t t = 0; t < tiles; ++t)
      multiply_words<R>(words + t * R * plan.k + k, plan.k, plan.k_block, job.weights + k * kBlock,
                        sums + t * R * kBlock, k == 0);
  const int64_t size = o.inverse_scale == 0 ? 4 : 1;
  with_activation(o.epilogue.act, [&]<Activation kAct>() __attribute__((always_inline)) {
    const Finisher<kAct> finisher(o);
    for (int64_t t = 0; t < tiles; ++t, words += R * plan.k, places += R, sums += R * kBlock) {
      multiply_words<R>(words + k, plan.k, plan.k - k, job.weights + k * kBlock, sums, k == 0);
      for (int i = 0; i < R; ++i)
        finisher.pixel(sums + i * kBlock, job, job.residual ? job.residual + places[i].residual : nullptr,
                       job.out + places[i].out * size);
    }
  });
}

size_t worker_bytes(const WordsPlan& plan) {
  return round_up(plan.block_pixels * plan.k * sizeof(int16_t), 64) + plan.block_pixels * kBlock * sizeof(int32_t) +
         plan.block_pixels * sizeof(Place);
}

void run(const WordsPlan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
  const int64_t blocks = (group_out + kBlock - 1) / kBlock, all_blocks = blocks * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = all_blocks * part_n / plan.channel_splits, n1 = all_blocks * (part_n + 1) / plan.channel_splits;
  const int64_t pixels = s.batch * s.out_h * s.out_w, all_tiles = (pixels + kTilePixels - 1) / kTilePixels;
  const int64_t p0 = smaller(pixels, all_tiles * part_m / plan.pixel_splits * kTilePixels);
  const int64_t p1 = smaller(pixels, all_tiles * (part_m + 1) / plan.pixel_splits * kTilePixels);
  if (n0 >= n1 || p0 >= p1) return;

  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  auto* const words = reinterpret_cast<int16_t*>(own);
  auto* const sums =
      reinterpret_cast<int32_t*>(own + round_up(plan.block_pixels * plan.k * sizeof(int16_t), 64));
  auto* const places = reinterpret_cast<Place*>(sums + plan.block_pixels * kBlock);
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;
  const int64_t out_size = output.inverse_scale == 0 ? 4 : 1;

  const int64_t rounds = (p1 - p0 + plan.block_pixels - 1) / plan.block_pixels;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + (p1 - p0) * round / rounds, count = p0 + (p1 - p0) * (round + 1) / rounds - first;
    PixelCursor cursor(s, first);
    for (int64_t i = 0; i < count; ++i, cursor.next())
      places[i] = {cursor.image * s.out_image + cursor.y * s.out_row + cursor.x * s.out_pixel,
                   cursor.image * s.res_image + cursor.y * s.res_row + cursor.x * s.res_pixel};
    const int64_t tiles = (count + kTilePixels - 1) / kTilePixels, large = count % tiles;
    const int small = static_cast<int>(count / tiles);
    int64_t copied = -1;
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
      if (group != copied) copy_windows(plan, in + group * group_in, first, count, words);
      copied = group;
      Job job;
      job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
      job.multiplier = output.multiplier + n * kBlock;
      job.bias = output.bias + n * kBlock;
      job.weights = plan.packed + n * plan.k * kBlock;
      job.residual = residual ? residual + channel : nullptr;
      job.out = static_cast<std::byte*>(out) + channel * out_size;
      if (large)
        with_words(small + 1, [&]<int R>() __attribute__((always_inline)) {
          run_tiles<R>(plan, output, job, words, places, large, sums);
        });
      const int64_t done = large * (small + 1);
      with_words(small, [&]<int R>() __attribute__((always_inline)) {
        run_tiles<R>(plan, output, job, words + done * plan.k, places + done, tiles - large, sums);
      });
    }
  }
}

}  // namespace

extern const WordsOps words_ops;
const WordsOps words_ops = {kTilePixels, run, worker_bytes, run_winograd8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
