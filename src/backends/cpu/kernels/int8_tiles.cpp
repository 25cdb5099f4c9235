#include "backends/cpu/kernels/int8_tiles.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/int8_support.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kTile = 16, kChunkBytes = 64;
// Of what a round of a worker reads and writes, within L2 beside the weights, or where these are in L3.
constexpr int64_t kRoundBytes = 256 << 10, kLongRoundBytes = 768 << 10, kResidentWeights = 512 << 10;

// K is cut into runs of bytes that lie behind each other for every output, a run into equal chunks; the last one begins
// before the one ahead of it ends where the run is no multiple of it.
struct Runs {
  int64_t count, length, chunks_each;
  int chunk;
  int64_t chunks() const { return count * chunks_each; }
};

Runs cut(int64_t count, int64_t length) {
  Runs runs{count, length, ceil_div(length, kChunkBytes), 0};
  const auto chunk = [&] { return align_up(ceil_div(length, runs.chunks_each), 4); };
  while (chunk() > length && chunk() > 4) ++runs.chunks_each;
  runs.chunk = static_cast<int>(chunk());
  return runs;
}

// Pixels that lie one behind the other are windows already.
bool are_windows(const ConvShape& s) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 &&
         s.pad_left == 0 && s.in_h == s.out_h && s.in_w == s.out_w && s.in_row == s.in_w * s.in_pixel &&
         s.in_image == s.in_h * s.in_row && group_in(s) >= 4;
}

// Pixels of a row of a picture: the border on the right serves as that on the left of the next row, too.
int64_t columns_of(const ConvShape& s) {
  const int64_t seen = (s.out_w - 1) * s.stride_w + int64_t{s.kernel_w - 1} * s.dilation_w + 1;
  const int64_t right = std::max<int64_t>(0, seen - s.pad_left - s.in_w);
  return align_up(std::max(seen - std::min<int64_t>(right, s.pad_left), s.out_w * s.stride_w), s.stride_w);
}

class Int8TilesKernel final : public Int8Kernel {
 public:
  Int8TilesKernel(const Int8Conv& conv, const Int8TileOps& ops, int threads)
      : ops_(ops), lists_(conv, kTileBlock), padded_(align_up(group_out(conv.shape), kTileBlock)) {
    plan_.shape = conv.shape;
    plan_.output = lists_.output();
    plan_.in_zero = conv.in_zero;
    choose_source();
    pack(conv);
    plan_split(threads);
    plan_rounds();
    plan_.worker_bytes = align_up(ops_.worker_bytes(plan_) + plan_.copy_bytes, 4096) + 256;
  }

  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
           const Worker& worker) const override {
    Int8TilePlan plan = plan_;
    plan.in_zero = in_zero;
    ops_.run(plan, in, residual, out, worker);
  }

 private:
  void choose_source() {
    const ConvShape& s = plan_.shape;
    const int64_t c = group_in(s), taps = int64_t{s.kernel_h} * s.kernel_w;
    const bool touching = s.dilation_w == 1;
    runs_ = cut(1, taps * c);
    plan_.slots = s.out_w;
    if (are_windows(s)) {
      plan_.source = TileSource::in_place;
      plan_.step = s.in_pixel;
    } else {
      const Runs picture = touching ? cut(s.kernel_h, s.kernel_w * c) : cut(taps, c);
      const int64_t columns = columns_of(s), slots = columns / s.stride_w;
      // Cycles of an output: two of each chunk and block of channels, and the copying.
      const auto blocks = static_cast<double>(padded_ / kTileBlock);
      const double overlapping = 2 * blocks * picture.chunks() * slots / s.out_w + c * s.stride_h * s.stride_w / 24.,
                   apart = 2 * blocks * runs_.chunks() + s.kernel_h * (8 + s.kernel_w * c / 24.);
      const bool copies = taps == 1 || apart < overlapping;
      plan_.source = copies ? TileSource::windows : TileSource::picture;
      plan_.step = align_up(runs_.chunks() * runs_.chunk, kChunkBytes);
      if (!copies) {
        runs_ = picture;
        plan_.columns = columns;
        plan_.slots = slots;
        plan_.step = s.stride_w * c;
      }
    }
    plan_.chunks = runs_.chunks();
    plan_.chunk_bytes = runs_.chunk;
  }

  int64_t offset_in_run(int64_t chunk) const {
    return std::max<int64_t>(0, std::min(chunk * runs_.chunk, runs_.length - runs_.chunk));
  }

  void pack(const Int8Conv& conv) {
    const int64_t blocks = padded_ / kTileBlock, block_bytes = plan_.chunks * runs_.chunk * kTileBlock;
    packed_.assign(static_cast<size_t>(conv.shape.groups * blocks * block_bytes), std::byte{0});
    start_.assign(static_cast<size_t>(conv.shape.groups * padded_), 0);
    each_weight(conv, kTileBlock, [&](int64_t group, int64_t n, int64_t k, int channel, int16_t w) {
      const int64_t run = k / runs_.length, in_run = k % runs_.length, chunk = in_run / runs_.chunk;
      const int64_t byte = (run * runs_.chunks_each + chunk) * runs_.chunk + in_run - offset_in_run(chunk);
      packed_[static_cast<size_t>((group * blocks + n) * block_bytes + byte / 4 * 4 * kTileBlock + channel * 4 +
                                  byte % 4)] = static_cast<std::byte>(w);
      start_[static_cast<size_t>(group * padded_ + n * kTileBlock + channel)] -= w;
    });
    plan_.packed = packed_.data();
    plan_.start = start_.data();
  }

  // As DirectKernel cuts its work: cycles of multiplying and finishing, 16 bytes of weights a cycle and 8 of inputs.
  void plan_split(int threads) {
    const ConvShape& s = plan_.shape;
    const int64_t rows = s.batch * s.out_h, blocks = padded_ / kTileBlock * s.groups;
    const int64_t weights = static_cast<int64_t>(packed_.size()), inputs = s.batch * s.in_h * s.in_w * s.in_c;
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      if (threads % n) continue;
      const int m = threads / n;
      const int64_t places = plan_.source == TileSource::picture ? ceil_div(rows, m) * plan_.slots
                                                                 : ceil_div(rows * s.out_w, m);
      const int64_t cost = ceil_div(places, 2 * kTile) * ceil_div(blocks, n) * (plan_.chunks * 64 + 600) +
                           weights / n / 16 + inputs / m / (n > 1 ? 4 : 8);
      if (cost >= best) continue;
      best = cost;
      plan_.pixel_splits = m;
      plan_.channel_splits = n;
    }
  }

  void plan_rounds() {
    const ConvShape& s = plan_.shape;
    const int64_t weights = static_cast<int64_t>(packed_.size()) / plan_.channel_splits;
    const int64_t target = weights > kResidentWeights ? kLongRoundBytes : kRoundBytes;
    const int64_t rows = ceil_div(s.batch * s.out_h, plan_.pixel_splits);
    if (plan_.source == TileSource::picture) {
      const int64_t c = group_in(s), pitch = plan_.columns * c, reach = int64_t{s.kernel_h - 1} * s.dilation_h;
      const int64_t row_bytes = pitch * s.stride_h + s.out_w * group_out(s);
      plan_.block_rows = std::clamp<int64_t>(target / row_bytes, 1, std::min<int64_t>(rows, s.out_h));
      plan_.block_places = plan_.block_rows * plan_.slots;
      const int64_t in_plane = ceil_div((plan_.block_rows - 1) * s.stride_h + reach + 1, s.stride_h);
      plan_.plane_bytes = align_up(in_plane * pitch + s.kernel_w * s.dilation_w * c + kChunkBytes, 64);
      plan_.copy_bytes = static_cast<size_t>(plan_.plane_bytes * s.stride_h);
    } else {
      const int64_t all = ceil_div(s.batch * s.out_h * s.out_w, plan_.pixel_splits);
      const int64_t wanted = target / (plan_.step + group_out(s)) / (2 * kTile) * (2 * kTile);
      plan_.block_places = std::min(all, std::max<int64_t>(wanted, 4 * kTile));
      if (plan_.source == TileSource::windows)
        plan_.copy_bytes = static_cast<size_t>(plan_.block_places * plan_.step + kChunkBytes);
    }
    offsets_.resize(static_cast<size_t>(plan_.chunks));
    for (int64_t at = 0; at < plan_.chunks; ++at)
      offsets_[static_cast<size_t>(at)] = run_offset(at / runs_.chunks_each) + offset_in_run(at % runs_.chunks_each);
    plan_.offsets = offsets_.data();
  }

  int64_t run_offset(int64_t run) const {
    const ConvShape& s = plan_.shape;
    if (plan_.source != TileSource::picture) return 0;
    const int64_t c = group_in(s), per_row = runs_.count / s.kernel_h, row = run / per_row * s.dilation_h;
    return row % s.stride_h * plan_.plane_bytes + row / s.stride_h * plan_.columns * c +
           run % per_row * s.dilation_w * c;
  }

  const Int8TileOps& ops_;
  Int8Lists lists_;
  int64_t padded_;  // output channels of a group, in whole blocks
  Int8TilePlan plan_{};
  Runs runs_{};
  std::vector<std::byte> packed_;
  std::vector<int32_t> start_;
  std::vector<int64_t> offsets_;
};

}  // namespace

const char* refuses_tiles(const Int8Conv& conv) {
  if (const char* reason = refuses_bytes(conv)) return reason;
  const ConvShape& s = conv.shape;
  if (s.in_c == 0 || s.out_c == 0 || s.out_h == 0 || s.out_w == 0) return "there is nothing to add up";
  return s.groups > 1 && group_out(s) < kTile / 2 ? "its groups are smaller than half a tile" : nullptr;
}

std::unique_ptr<Int8Kernel> make_tiles(const Int8Conv& conv, Isa, int threads) {
  return std::make_unique<Int8TilesKernel>(conv, amx::int8_tile_ops, threads);
}

}  // namespace tenon::cpu
