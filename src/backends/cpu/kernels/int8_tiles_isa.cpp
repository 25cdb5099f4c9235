#include "backends/cpu/kernels/int8_tiles.h"

#include "backends/cpu/kernels/int8_outputs.h"
#include "backends/cpu/kernels/int8_windows.h"
#include "backends/cpu/kernels/tiles.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

constexpr int64_t kPairSums = 2 * kTileRows * kTileBlock;

// Tiles of `rows` places each; the last one may begin before the one ahead of it ends.
struct Tiling {
  int64_t count;  // of places
  int rows;
  explicit Tiling(int64_t places) : count(places) {
    const int64_t tiles = places > kTileRows ? (places + 2 * kTileRows - 1) / (2 * kTileRows) * 2 : 1;
    rows = static_cast<int>((places + tiles - 1) / tiles);
  }
  int64_t pairs() const { return (count + 2 * rows - 1) / (2 * rows); }
  bool is_pair(int64_t pair) const { return (2 * pair + 1) * rows < count; }
  int64_t first(int64_t tile) const { return smaller(tile * rows, count - rows); }
};

// All sums of up to two tiles of places times up to two of channels.
template <int kInputs, int kWeights>
__attribute__((noinline)) void multiply(const Int8TilePlan& plan, const std::byte* const* a, const std::byte* weights,
                                        const int32_t* start, int32_t* sums) {
  constexpr int64_t kRow = kTileBlock * 4;
  const int64_t step = plan.step, chunk = plan.chunk_bytes / 4 * kRow;
  const std::byte *const a0 = a[0], *const a1 = a[1];
  load_tile<0>(start, 0);
  if constexpr (kWeights > 1) load_tile<1>(start + kTileColumns, 0);
  if constexpr (kInputs > 1) load_tile<2>(start, 0);
  if constexpr (kInputs > 1 && kWeights > 1) load_tile<3>(start + kTileColumns, 0);
  const int64_t* const end = plan.offsets + plan.chunks;
  for (const int64_t* offset = plan.offsets; offset != end; ++offset, weights += chunk) {
    load_tile<6>(weights, kRow);
    load_tile<4>(a0 + *offset, step);
    add_tile_dots<0, 4, 6>();
    if constexpr (kInputs > 1) {
      load_tile<5>(a1 + *offset, step);
      add_tile_dots<2, 5, 6>();
    }
    if constexpr (kWeights > 1) {
      load_tile<7>(weights + kTileColumns * 4, kRow);
      add_tile_dots<1, 4, 7>();
      if constexpr (kInputs > 1) add_tile_dots<3, 5, 7>();
    }
  }
  store_tile<0>(sums, kRow);
  if constexpr (kWeights > 1) store_tile<1>(sums + kTileColumns, kRow);
  if constexpr (kInputs > 1) store_tile<2>(sums + kTileRows * kTileBlock, kRow);
  if constexpr (kInputs > 1 && kWeights > 1) store_tile<3>(sums + kTileRows * kTileBlock + kTileColumns, kRow);
}

TENON_INLINE void multiply_pair(const Int8TilePlan& plan, const Job& job, const Tiling& tiling, const std::byte* from,
                                int64_t pair, int32_t* sums) {
  const std::byte* a[2] = {from + tiling.first(2 * pair) * plan.step, from + tiling.first(2 * pair + 1) * plan.step};
  const bool both = tiling.is_pair(pair), wide = job.channels > kTileColumns;
  if (both && wide) multiply<2, 2>(plan, a, job.weights, job.start, sums);
  else if (both) multiply<2, 1>(plan, a, job.weights, job.start, sums);
  else if (wide) multiply<1, 2>(plan, a, job.weights, job.start, sums);
  else multiply<1, 1>(plan, a, job.weights, job.start, sums);
}

// Sums of all channels of a block; kTileBlock is no more than one of them where there are tiles.
TENON_INLINE void finish_block(const Int8Output& o, Job job, Finish finish, const int32_t* sums, int64_t count,
                               Outputs& outputs) {
  if constexpr (kBlock == kTileBlock) return finish(o, job, sums, kTileBlock, count, outputs);
  const int channels = job.channels;
  const Outputs begin = outputs;
  for (int c = 0; c < channels; c += kBlock) {
    Outputs at = begin;
    job.channels = static_cast<int>(smaller(kBlock, channels - c));
    finish(o, job, sums + c, kTileBlock, count, at);
    job.at += kBlock;
    job.out += kBlock * (o.inverse_scale ? 1 : 4);
    if (job.residual) job.residual += kBlock;
  }
  outputs.take(count, [](int64_t, int64_t, int64_t, int64_t) {});
}

// A block of channels at all places. Each pair of tiles is finished while the next is multiplied.
void run_block(const Int8TilePlan& plan, const Int8Output& o, const Job& job, Finish finish, const Tiling& tiling,
               const std::byte* from, int32_t* sums, Outputs outputs) {
  const int64_t pairs = tiling.pairs();
  for (int64_t pair = 0; pair <= pairs; ++pair) {
    if (pair < pairs) multiply_pair(plan, job, tiling, from, pair, sums + pair % 2 * kPairSums);
    if (pair == 0) continue;
    const int32_t* const done = sums + (pair - 1) % 2 * kPairSums;
    for (int64_t tile = 2 * pair - 2; tile < 2 * pair; ++tile) {
      const int64_t begin = tile * tiling.rows, end = smaller(tiling.count, begin + tiling.rows);
      const int64_t row = tile % 2 * kTileRows + begin - tiling.first(tile);
      if (begin < end) finish_block(o, job, finish, done + row * kTileBlock, end - begin, outputs);
    }
  }
}

// Rows y0 to before y1 of an image's outputs see these rows of it.
void copy_picture(const Int8TilePlan& plan, const uint8_t* image, int64_t y0, int64_t y1, uint8_t* to) {
  const ConvShape& s = plan.shape;
  const int64_t c = s.in_c / s.groups, pitch = plan.columns * c, reach = int64_t{s.kernel_h - 1} * s.dilation_h;
  const int64_t rows = (y1 - y0 - 1) * s.stride_h + reach + 1, first = y0 * s.stride_h - s.pad_top;
  const int64_t left = smaller(plan.columns, s.pad_left), inside = smaller(s.in_w, plan.columns - left);
  for (int64_t row = 0; row < rows; ++row) {
    bool read = false;
    for (int ky = 0; ky < s.kernel_h; ++ky) read |= (row - int64_t{ky} * s.dilation_h) % s.stride_h == 0;
    if (!read) continue;
    uint8_t* const line = to + row % s.stride_h * plan.plane_bytes + row / s.stride_h * pitch;
    const int64_t y = first + row;
    // The border to the right of the last row lies before the next plane.
    const int64_t behind = plan.columns - left - inside + (row + s.stride_h >= rows ? s.kernel_w * s.dilation_w : 0);
    if (y < 0 || y >= s.in_h) {
      copy_padding(line, (left + inside + behind) * c, plan.in_zero);
      continue;
    }
    const uint8_t* const from = image + y * s.in_row;
    copy_padding(line, left * c, plan.in_zero);
    uint8_t* at = line + left * c;
    if (s.in_pixel == c) {
      __builtin_memcpy(at, from, static_cast<size_t>(inside * c));
    } else {
      for (int64_t x = 0; x < inside; ++x) copy_taps(at + x * c, from + x * s.in_pixel, c, 0);
    }
    copy_padding(at + inside * c, behind * c, plan.in_zero);
  }
}

// A round of a worker: places from `first` on, rows of outputs from y0 to before y1 of an image where there is a
// picture.
struct Round {
  int64_t first, count, image, y0, y1;
};

size_t worker_bytes(const Int8TilePlan&) { return 2 * kPairSums * sizeof(int32_t); }

// The blocks of channels [n0, n1) in one round.
void run_round(const Int8TilePlan& plan, const Int8Output& output, const uint8_t* in, const uint8_t* residual,
               void* out, const Round& round, int64_t n0, int64_t n1, std::byte* own) {
  const ConvShape& s = plan.shape;
  const int64_t group_in = s.in_c / s.groups, group_out = s.out_c / s.groups;
  const int64_t blocks = (group_out + kTileBlock - 1) / kTileBlock, out_size = output.inverse_scale ? 1 : 4;
  auto* const sums = reinterpret_cast<int32_t*>(own);
  auto* const copies = own + worker_bytes(plan);
  const Finish finish = finish_of(output);
  const PixelCursor cursor(s, round.first);
  const bool rows = plan.source == TileSource::picture;
  const Outputs outputs(s, plan.slots, rows ? round.image : cursor.image, rows ? round.y0 : cursor.y, cursor.x,
                        residual);
  const Tiling tiling(round.count);
  configure_tiles(tiling.rows, plan.chunk_bytes);
  int64_t copied = -1;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t group = n / blocks, channel = group * group_out + (n - group * blocks) * kTileBlock;
    const uint8_t* const channels = in + group * group_in;
    const std::byte* from = copies;
    if (plan.source == TileSource::in_place) {
      from = reinterpret_cast<const std::byte*>(channels) + round.first * plan.step;
    } else if (group != copied && plan.source == TileSource::windows) {
      copy_windows<uint8_t>(s, plan.in_zero, channels, round.first, round.count, plan.step, copies);
    } else if (group != copied) {
      copy_picture(plan, channels + round.image * s.in_image, round.y0, round.y1, reinterpret_cast<uint8_t*>(copies));
    }
    copied = group;
    alignas(64) int32_t start[kTileBlock];
    for (int c = 0; c < kTileBlock; ++c) start[c] = plan.start[n * kTileBlock + c] * plan.in_zero;
    Job job;
    job.channels = static_cast<int>(smaller(kTileBlock, (group + 1) * group_out - channel));
    job.at = n * kTileBlock;
    job.weights = plan.packed + n * plan.chunks * plan.chunk_bytes * kTileBlock;
    job.start = start;
    job.residual = residual ? residual + channel : nullptr;
    job.out = static_cast<std::byte*>(out) + channel * out_size;
    run_block(plan, output, job, finish, tiling, from, sums, outputs);
  }
}

void run(const Int8TilePlan& plan, const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) {
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t blocks = (s.out_c / s.groups + kTileBlock - 1) / kTileBlock * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = blocks * part_n / plan.channel_splits, n1 = blocks * (part_n + 1) / plan.channel_splits;
  // Of a picture whole rows are cut, otherwise runs of places.
  const bool rows = plan.source == TileSource::picture;
  const int64_t images = rows ? s.batch : 1, all = rows ? s.batch * s.out_h : s.batch * s.out_h * s.out_w;
  const int64_t begin = all * part_m / plan.pixel_splits, end = all * (part_m + 1) / plan.pixel_splits;
  if (n0 >= n1 || begin >= end) return;

  Int8Output output = plan.output;
  output.epilogue = normalised(output.epilogue);
  if (output.epilogue.residual == Residual::none) residual = nullptr;
  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  const int64_t most = rows ? plan.block_rows : plan.block_places;
  for (int64_t image = 0; image < images; ++image) {
    const int64_t from = rows ? image * s.out_h : 0, to = rows ? from + s.out_h : all;
    const int64_t first = begin > from ? begin : from, last = smaller(end, to), count = last - first;
    const int64_t rounds = count > 0 ? (count + most - 1) / most : 0;
    for (int64_t at = 0; at < rounds; ++at) {
      const int64_t a = first + count * at / rounds, b = first + count * (at + 1) / rounds;
      Round round{a, b - a, 0, 0, 0};
      if (rows) round = {0, (b - a - 1) * plan.slots + s.out_w, image, a - from, b - from};
      run_round(plan, output, in, residual, out, round, n0, n1, own);
    }
  }
  release_tiles();
}

}  // namespace

extern const Int8TileOps int8_tile_ops;
const Int8TileOps int8_tile_ops = {worker_bytes, run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
