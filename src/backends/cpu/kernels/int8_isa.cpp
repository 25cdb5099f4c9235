#include "backends/cpu/kernels/int8.h"

#include "backends/cpu/kernels/int8_finish.h"
#include "backends/cpu/kernels/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Sums of R pixels times kBlock output channels; `add` takes four bytes of K.
template <int R, bool kDot>
struct ByteSums {
  static constexpr int kStepBytes = kBlock * 4;
  IVec v[R][2];

  TENON_INLINE void clear() {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) v[i][0] = v[i][1] = izero();
  }
  TENON_INLINE void add(const uint8_t* const (&a)[R], int64_t k, const int8_t* w) {
    const IVec ones = ones16();
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const IVec x = spread4(a[i] + k);
      for (int j = 0; j < 2; ++j)
        if constexpr (kDot) add_dots(v[i][j], x, w + j * kLanes * 4);
        else add_pairs(v[i][j], x, w + j * kLanes * 4, ones);
    }
  }
  TENON_INLINE void store_to(int32_t* p) const {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      istore(p + i * kBlock, v[i][0]);
      istore(p + i * kBlock + kLanes, v[i][1]);
    }
  }
};

template <int R>
using PairSums = ByteSums<R, false>;
#ifdef __AVX2__
template <int R>
using DotSums = ByteSums<R, true>;
#else
template <int R>
using DotSums = PairSums<R>;  // never chosen
#endif

struct TileJob : BlockOfChannels {
  const int8_t* weights;
  const int32_t* start;
  const uint8_t* residual;
  std::byte* out;
  bool first, last;
};

template <int kPixels>
__attribute__((noinline)) void finish_tile8(const int32_t* sums, int pixels, const TileJob& job, const Int8Output& o,
                                            const PixelTileOf<kPixels>& tile) {
  const int64_t size = o.inverse_scale == 0 ? 4 : 1;
  with_activation(o.epilogue.act, [&]<Activation kAct>() __attribute__((always_inline)) {
    const Finisher<kAct> finisher(o);
    for (int i = 0; i < pixels; ++i)
      finisher.pixel(sums + i * kBlock, job, job.residual ? job.residual + tile.residual[i] : nullptr,
                     job.out + tile.out[i] * size);
  });
}

template <template <int> class SumsOf, int kPixels>
class Form {
 public:
  static size_t worker_bytes(const Int8Plan& plan) {
    return table_bytes<uint8_t, kPixels>(plan, plan.block_tiles) + round_up(kTileSums * sizeof(int32_t), 64) +
           round_up(plan.block_tiles * kTileSums * sizeof(int32_t), 64);
  }

  static void run(const Int8Plan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
    const ConvShape& s = plan.shape;
    if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
    const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
    const int64_t blocks = (group_out + kBlock - 1) / kBlock, all_blocks = blocks * s.groups;
    const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
    const int64_t n0 = all_blocks * part_n / plan.channel_splits, n1 = all_blocks * (part_n + 1) / plan.channel_splits;
    const int64_t pixels = s.batch * s.out_h * s.out_w, all_tiles = (pixels + kPixels - 1) / kPixels;
    const int64_t p0 = smaller(pixels, all_tiles * part_m / plan.pixel_splits * kPixels);
    const int64_t p1 = smaller(pixels, all_tiles * (part_m + 1) / plan.pixel_splits * kPixels);
    if (n0 >= n1 || p0 >= p1) return;

    std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
    const auto tables = tables_in<uint8_t, kPixels>(plan, plan.block_tiles, own);
    auto* partial = reinterpret_cast<int32_t*>(own + table_bytes<uint8_t, kPixels>(plan, plan.block_tiles));
    Int8Output output = plan.output;
    output.epilogue = normalised(output.epilogue);
    if (output.epilogue.residual == Residual::none) residual = nullptr;
    const int64_t out_size = output.inverse_scale == 0 ? 4 : 1;

    const int64_t my_tiles = (p1 - p0 + kPixels - 1) / kPixels;
    const int64_t rounds = (my_tiles + plan.block_tiles - 1) / plan.block_tiles;
    TileJob job;
    for (int64_t round = 0; round < rounds; ++round) {
      const int64_t first = p0 + smaller(my_tiles * round / rounds * kPixels, p1 - p0);
      const int64_t last = p0 + smaller(my_tiles * (round + 1) / rounds * kPixels, p1 - p0);
      const int64_t count = (last - first + kPixels - 1) / kPixels;
      const int64_t large = (last - first) % count;
      const int small = static_cast<int>((last - first) / count);
      int64_t filled = -1;
      for (int64_t n = n0; n < n1; ++n) {
        const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kBlock;
        if (group != filled)
          fill_tables<uint8_t, kPixels>(plan, tables, in + group * group_in, first, count, large, small);
        filled = group;
        job.channels = static_cast<int>(smaller(kBlock, (group + 1) * group_out - channel));
        job.start = plan.start + n * kBlock;
        job.multiplier = output.multiplier + n * kBlock;
        job.bias = output.bias + n * kBlock;
        job.residual = residual ? residual + channel : nullptr;
        job.out = static_cast<std::byte*>(out) + channel * out_size;
        for (int b = 0; b < plan.k_blocks; ++b) {
          job.weights = plan.packed + (n * plan.k + block_k(plan, b)) / 4 * SumsOf<1>::kStepBytes;
          job.first = b == 0;
          job.last = b + 1 == plan.k_blocks;
          if (large)
            with_pixels(small + 1, [&]<int R>() __attribute__((always_inline)) {
              run_tiles<R>(plan, tables, b, partial, job, output, 0, large);
            });
          if (count > large)
            with_pixels(small, [&]<int R>() __attribute__((always_inline)) {
              run_tiles<R>(plan, tables, b, partial, job, output, large, count);
            });
        }
      }
    }
  }

 private:
  static constexpr int64_t kTileSums = kPixels * kBlock;

  template <int N = kPixels, class F>
  static TENON_INLINE void with_pixels(int n, const F& f) {
    if constexpr (N >= 1) {
      if (n == N) f.template operator()<N>();
      else with_pixels<N - 1>(n, f);
    }
  }

  // Sums of K blocks before the last lie in `partial`, behind one tile for the block at hand.
  template <int R>
  static __attribute__((noinline)) void run_tiles(const Int8Plan& plan, const TablesOf<uint8_t, kPixels>& tables,
                                                  int block, int32_t* partial, const TileJob& job, const Int8Output& o,
                                                  int64_t begin, int64_t end) {
    const int64_t pitch = plan.k_blocks + 1;
    const IVec start0 = iload(job.start), start1 = iload(job.start + kLanes);
    for (int64_t t = begin; t < end; ++t) {
      SumsOf<R> sums;
      sums.clear();
      const auto* segment = tables.ranges[t * pitch + block];
      const auto* const stop = tables.ranges[t * pitch + block + 1];
      const int8_t* w = job.weights;
      do {
        const uint8_t* a[R];
        TENON_UNROLL
        for (int i = 0; i < R; ++i) a[i] = segment->source[i];
        const int64_t length = segment->length;
        int64_t k = 0;
        do {
          sums.add(a, k, w);
          w += SumsOf<R>::kStepBytes;
          k += 4;
        } while (k < length);
      } while (++segment != stop);
      sums.store_to(partial);
      int32_t* const before = partial + (t + 1) * kTileSums;
      for (int i = 0; i < R; ++i) {
        int32_t* p = partial + i * kBlock;
        const int32_t* q = before + i * kBlock;
        istore(p, iadd(iload(p), job.first ? start0 : iload(q)));
        istore(p + kLanes, iadd(iload(p + kLanes), job.first ? start1 : iload(q + kLanes)));
      }
      if (job.last) {
        finish_tile8<kPixels>(partial, R, job, o, tables.tiles[t]);
      } else {
        for (int i = 0; i < R * kBlock; i += kLanes) istore(before + i, iload(partial + i));
      }
    }
  }
};

using Pairs = Form<PairSums, kTilePixels>;
using Dots = Form<DotSums, kTilePixels>;

}  // namespace

extern const Int8Ops int8_ops;
const Int8Ops int8_ops = {kBlock,
                          {kTilePixels, Pairs::worker_bytes, Pairs::run},
                          {kTilePixels, Dots::worker_bytes, Dots::run},
                          run_depthwise8};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
