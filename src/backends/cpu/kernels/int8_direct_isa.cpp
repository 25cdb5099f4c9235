#include <type_traits>

#include "backends/cpu/kernels/int8_finish.h"
#include "backends/cpu/kernels/int8_micro.h"
#include "backends/cpu/kernels/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

struct Place {
  int64_t out, residual;
};

// Eight words of bytes less the zero point.
TENON_INLINE void copy_eight(int16_t* to, const uint8_t* from, __m128i zero) {
  _mm_storeu_si128((__m128i*)to, _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)from)), zero));
}

// What a form multiplies: bytes as they are, or words of them less the zero point. Ends of vectors overlap, which is
// faster than a loop over what is left.
TENON_INLINE int16_t* copy_taps(int16_t* to, const uint8_t* from, int64_t count, int32_t zero_point) {
  constexpr int64_t kWords = 2 * kLanes;
  if (count >= kWords) {
    const IVec zero = iset16(zero_point);
    for (int64_t at = 0; at < count; at += kWords) {
      const int64_t begin = smaller(at, count - kWords);
      istore(to + begin, isub16(widen16(from + begin), zero));
    }
  } else if (count >= 8) {
    const __m128i zero = _mm_set1_epi16(static_cast<int16_t>(zero_point));
    for (int64_t at = 0; at < count; at += 8) {
      const int64_t begin = smaller(at, count - 8);
      copy_eight(to + begin, from + begin, zero);
    }
  } else {
    for (int64_t at = 0; at < count; ++at) to[at] = static_cast<int16_t>(from[at] - zero_point);
  }
  return to + count;
}
TENON_INLINE uint8_t* copy_taps(uint8_t* to, const uint8_t* from, int64_t count, int32_t) {
  if (count >= 16 && count <= 128) {
    for (int64_t at = 0; at < count; at += 16) {
      const int64_t begin = smaller(at, count - 16);
      _mm_storeu_si128((__m128i*)(to + begin), _mm_loadu_si128((const __m128i*)(from + begin)));
    }
  } else if (count >= 8 && count < 16) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + count - 8, from + count - 8, 8);
  } else if (count < 8) {
    for (int64_t at = 0; at < count; ++at) to[at] = from[at];
  } else {
    __builtin_memcpy(to, from, static_cast<size_t>(count));
  }
  return to + count;
}

// The same for at most 16 of them where 16 may be read and written.
TENON_INLINE int16_t* copy_few(int16_t* to, const uint8_t* from, int64_t count, int32_t zero_point) {
  const __m128i zero = _mm_set1_epi16(static_cast<int16_t>(zero_point));
  copy_eight(to, from, zero);
  copy_eight(to + 8, from + 8, zero);
  return to + count;
}
TENON_INLINE uint8_t* copy_few(uint8_t* to, const uint8_t* from, int64_t count, int32_t) {
  _mm_storeu_si128((__m128i*)to, _mm_loadu_si128((const __m128i*)from));
  return to + count;
}

template <class Element>
TENON_INLINE Element* copy_padding(Element* to, int64_t count, int32_t zero_point) {
  __builtin_memset(to, sizeof(Element) == 2 ? 0 : zero_point, static_cast<size_t>(count) * sizeof(Element));
  return to + count;
}

// The window whose first tap lies at row y0, column x0 of an image; `in` is its first channel, `end` the end of all
// images. What fills the window's last unit stays as it is, and up to 16 elements behind may change: weights are 0
// there, and the next window is written later.
template <class Element>
TENON_INLINE void copy_window(const Int8Plan& plan, const uint8_t* in, const uint8_t* end, int64_t y0, int64_t x0,
                              Element* to) {
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.groups;
  const int32_t zero = plan.in_zero;
  const bool touching = s.dilation_w == 1 && s.in_pixel == c;
  const bool inside = touching && x0 >= 0 && x0 + s.kernel_w <= s.in_w;
  const int64_t run = s.kernel_w * c;
  for (int ky = 0; ky < s.kernel_h; ++ky) {
    const int64_t y = y0 + int64_t{ky} * s.dilation_h;
    if (y < 0 || y >= s.in_h) {
      to = copy_padding(to, s.kernel_w * c, zero);
      continue;
    }
    const uint8_t* const row = in + y * s.in_row;
    if (inside) {
      const uint8_t* const from = row + x0 * c;
      to = run <= 16 && end - from >= 16 ? copy_few(to, from, run, zero) : copy_taps(to, from, run, zero);
      continue;
    }
    if (touching) {
      const int64_t left = smaller(s.kernel_w, x0 < 0 ? -x0 : 0), last = smaller(s.kernel_w, s.in_w - x0);
      if (left) to = copy_padding(to, left * c, zero);
      if (last > left) to = copy_taps(to, row + (x0 + left) * c, (last - left) * c, zero);
      if (last < s.kernel_w) to = copy_padding(to, (s.kernel_w - (last > left ? last : left)) * c, zero);
      continue;
    }
    for (int kx = 0; kx < s.kernel_w; ++kx) {
      const int64_t x = x0 + int64_t{kx} * s.dilation_w;
      to = x < 0 || x >= s.in_w ? copy_padding(to, c, zero) : copy_taps(to, row + x * s.in_pixel, c, zero);
    }
  }
}

template <class Element>
__attribute__((noinline)) void copy_windows(const Int8Plan& plan, const uint8_t* in, int64_t first, int64_t count,
                                            std::byte* windows) {
  const ConvShape& s = plan.shape;
  const uint8_t* const end = in + (s.batch - 1) * s.in_image + (s.in_h - 1) * s.in_row + (s.in_w - 1) * s.in_pixel +
                             s.in_c / s.groups;
  PixelCursor cursor(s, first);
  for (int64_t i = 0; i < count; ++i, cursor.next(), windows += plan.pitch)
    copy_window(plan, in + cursor.image * s.in_image, end, cursor.y * s.stride_h - s.pad_top,
                cursor.x * s.stride_w - s.pad_left, reinterpret_cast<Element*>(windows));
}

struct Job : BlockOfChannels {
  const std::byte* weights;
  const int32_t* start;
  const uint8_t* residual;
  std::byte* out;
};

// All of K over `tiles` tiles of R pixels.
template <Int8Form kForm, int R>
__attribute__((noinline)) void run_tiles(const Int8Plan& plan, const Int8Output& o, const Job& job,
                                         const std::byte* windows, const Place* places, int64_t tiles, int32_t* sums) {
  constexpr int64_t kUnit = kBlock * 4;
  int64_t unit = 0;
  for (; plan.units - unit > plan.unit_block; unit += plan.unit_block)
    for (int64_t t = 0; t < tiles; ++t)
      multiply_units<kForm, R>(windows + t * R * plan.pitch + unit * 4, plan.pitch, plan.unit_block,
                               job.weights + unit * kUnit, unit ? nullptr : job.start, sums + t * R * kBlock);
  const int64_t size = o.inverse_scale ? 1 : 4;
  with_activation(o.epilogue.act, [&]<Activation kAct>() __attribute__((always_inline)) {
    const Finisher<kAct> finisher(o);
    for (int64_t t = 0; t < tiles; ++t, windows += R * plan.pitch, places += R, sums += R * kBlock) {
      multiply_units<kForm, R>(windows + unit * 4, plan.pitch, plan.units - unit, job.weights + unit * kUnit,
                               unit ? nullptr : job.start, sums);
      for (int i = 0; i < R; ++i)
        finisher.pixel(sums + i * kBlock, job, job.residual ? job.residual + places[i].residual : nullptr,
                       job.out + places[i].out * size);
    }
  });
}

size_t worker_bytes(const Int8Plan& plan) {
  return (plan.in_place ? 0 : round_up(plan.block_pixels * plan.pitch + 64, 64)) +
         plan.block_pixels * (kBlock * sizeof(int32_t) + sizeof(Place));
}

template <Int8Form kForm>
void run(const Int8Plan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  using Element = std::conditional_t<kForm == Int8Form::words, int16_t, uint8_t>;
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
  auto* const sums = reinterpret_cast<int32_t*>(own);
  auto* const places = reinterpret_cast<Place*>(sums + plan.block_pixels * kBlock);
  auto* const copies = reinterpret_cast<std::byte*>(places + plan.block_pixels);
  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;
  const int64_t out_size = output.inverse_scale ? 1 : 4;

  const int64_t rounds = (p1 - p0 + plan.block_pixels - 1) / plan.block_pixels;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = p0 + (p1 - p0) * round / rounds, count = p0 + (p1 - p0) * (round + 1) / rounds - first;
    PixelCursor cursor(s, first);
    for (int64_t i = 0; i < count; ++i, cursor.next())
      places[i] = {cursor.image * s.out_image + cursor.y * s.out_row + cursor.x * s.out_pixel,
                   cursor.image * s.res_image + cursor.y * s.res_row + cursor.x * s.res_pixel};
    const std::byte* windows = copies;
    int64_t copied = -1;
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
      if (plan.in_place) windows = reinterpret_cast<const std::byte*>(in) + first * plan.pitch + group * group_in;
      else if (group != copied) copy_windows<Element>(plan, in + group * group_in, first, count, copies);
      copied = group;
      Job job;
      job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
      job.at = n * kBlock;
      job.weights = plan.packed + n * plan.units * kBlock * 4;
      job.start = plan.start + n * kBlock;
      job.residual = residual ? residual + channel : nullptr;
      job.out = static_cast<std::byte*>(out) + channel * out_size;
      with_tiles(count, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
        run_tiles<kForm, R>(plan, output, job, windows + done * plan.pitch, places + done, tiles, sums);
      });
    }
  }
}

#ifdef __AVX2__
constexpr Int8Form kDot = Int8Form::dot;
#else
constexpr Int8Form kDot = Int8Form::pairs;  // never chosen
#endif

}  // namespace

extern const Int8Ops int8_ops;
const Int8Ops int8_ops = {
    kBlock,
    kTilePixels,
    {{worker_bytes, run<Int8Form::words>}, {worker_bytes, run<Int8Form::pairs>}, {worker_bytes, run<kDot>}},
    run_winograd8,
    run_depthwise8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
