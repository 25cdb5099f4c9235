// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/tile_plan.h"

#include <algorithm>

#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kTile = 16, kChunkBytes = 64;
// Of weights that a pair of tiles is multiplied by before the next is: they pass through L1 for each pair, and the
// first of a layer wait for memory.
constexpr int64_t kTogetherBytes = 64 << 10;
// Of what a round of a worker reads and writes, within L2 beside the weights, or where these are in L3.
constexpr int64_t kRoundBytes = 256 << 10, kLongRoundBytes = 768 << 10, kResidentWeights = 512 << 10;

int64_t group_in(const ConvShape& s) { return s.in_c / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_c / s.groups; }
int64_t blocks_of(const ConvShape& s) { return ceil_div(group_out(s), kTileBlock); }

// `exactly`: no chunk reaches behind its run, as what lies there is not ours or may be no number.
TileRuns cut(TileUnit unit, int64_t count, int64_t length, bool exactly) {
  TileRuns runs{count, length, unit == TileUnit::tiles ? ceil_div(length, kChunkBytes) : 1, 0};
  const auto chunk = [&] { return align_up(ceil_div(length, runs.chunks_each), 4); };
  while (exactly && chunk() > length && chunk() > 4) ++runs.chunks_each;
  runs.chunk = static_cast<int>(chunk());
  return runs;
}

// Pixels that lie one behind the other are windows already.
bool are_windows(const ConvShape& s) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 &&
         s.pad_left == 0 && s.in_h == s.out_h && s.in_w == s.out_w && s.in_row == s.in_w * s.in_pixel &&
         s.in_image == s.in_h * s.in_row && group_in(s) >= 4;
}

// Pixels of a row of an image: the border on the right serves as that on the left of the next row, too.
int64_t columns_of(const ConvShape& s) {
  const int64_t seen = (s.out_w - 1) * s.stride_w + int64_t{s.kernel_w - 1} * s.dilation_w + 1;
  const int64_t right = std::max<int64_t>(0, seen - s.pad_left - s.in_w);
  return align_up(std::max(seen - std::min<int64_t>(right, s.pad_left), s.out_w * s.stride_w), s.stride_w);
}

// Cycles of multiplying an output by a block of channels, `slots` to a row of the former.
double cycles_of(const TilePlan& plan, const TileRuns& runs, int64_t slots) {
  if (plan.unit == TileUnit::tiles) return 2. * static_cast<double>(runs.chunks() * slots) / plan.shape.out_w;
  return static_cast<double>(runs.chunks() * runs.chunk / 4);  // what is no output is left out
}

void choose_source(TilePlan& plan) {
  const ConvShape& s = plan.shape;
  const int64_t c = group_in(s) * plan.element, taps = int64_t{s.kernel_h} * s.kernel_w;
  const bool tiles = plan.unit == TileUnit::tiles, in_place = plan.element == 1 && are_windows(s);
  const bool exactly = in_place || plan.element > 1;
  plan.runs = cut(plan.unit, 1, taps * c, exactly && tiles);  // vectors: windows are filled up
  plan.slots = s.out_w;
  if (in_place) {
    plan.source = TileSource::in_place;
    plan.step = s.in_pixel;
    return;
  }
  const TileRuns image = s.dilation_w == 1 ? cut(plan.unit, s.kernel_h, s.kernel_w * c, exactly)
                                             : cut(plan.unit, taps, c, exactly);
  const int64_t columns = columns_of(s), slots = columns / s.stride_w;
  // Cycles of an output, and of copying what it reads.
  const auto blocks = static_cast<double>(blocks_of(s));
  const double overlapping = blocks * cycles_of(plan, image, slots) + c * s.stride_h * s.stride_w / 24.,
               apart = blocks * cycles_of(plan, plan.runs, s.out_w) + s.kernel_h * (8 + s.kernel_w * c / 24.);
  if (!s.in_nchw && (taps == 1 || image.length < 4 || apart < overlapping)) {
    plan.source = TileSource::windows;
    plan.step = align_up(plan.runs.chunks() * plan.runs.chunk, kChunkBytes);
    if (!tiles) plan.step |= kChunkBytes;  // rows read together lie in different sets of L1
    return;
  }
  plan.source = TileSource::image;
  plan.runs = image;
  plan.columns = columns;
  plan.slots = slots;
  plan.step = s.stride_w * c;
}

// As DirectKernel cuts its work: cycles of multiplying and finishing, 8 bytes of weights a cycle, which other layers
// have driven into L3, and 16 of inputs, or 8 where another worker wrote half of them. Cut by channels, outputs and
// what is added to them are shared with other workers, too.
void plan_split(TilePlan& plan, bool is_residual, int threads) {
  const ConvShape& s = plan.shape;
  const int64_t rows = s.batch * s.out_h, blocks = blocks_of(s) * s.groups;
  const int64_t weights = tile_packed_bytes(plan), inputs = s.batch * s.in_h * s.in_w * s.in_c * plan.element;
  const int64_t pair_cycles =  // 32 outputs
      plan.unit == TileUnit::tiles ? plan.runs.chunks() * 64 + 600 : plan.runs.chunks() * plan.runs.chunk * 8 + 600;
  const int64_t outputs = rows * s.out_w * s.out_c * plan.element * (is_residual ? 2 : 1);
  int64_t best = INT64_MAX;
  for (int n = 1; n <= threads; ++n) {
    if (threads % n) continue;
    const int m = threads / n;
    const int64_t places = plan.source == TileSource::image ? ceil_div(rows, m) * plan.slots
                                                              : ceil_div(rows * s.out_w, m);
    const int64_t cost =
        ceil_div(places, 2 * kTile) * ceil_div(blocks, n) * pair_cycles +
        weights / n / 8 + (n > 1 ? inputs / m / 8 + outputs / threads / 8 : inputs / m / 16 + outputs / threads / 16);
    if (cost >= best) continue;
    best = cost;
    plan.pixel_splits = m;
    plan.channel_splits = n;
  }
}

void plan_rounds(TilePlan& plan) {
  const ConvShape& s = plan.shape;
  const int64_t target =
      tile_packed_bytes(plan) / plan.channel_splits > kResidentWeights ? kLongRoundBytes : kRoundBytes;
  if (plan.source == TileSource::image) {
    const int64_t rows = ceil_div(s.batch * s.out_h, plan.pixel_splits), c = group_in(s) * plan.element;
    const int64_t pitch = plan.columns * c, reach = int64_t{s.kernel_h - 1} * s.dilation_h;
    const int64_t row_bytes = pitch * s.stride_h + s.out_w * group_out(s) * plan.element;
    plan.block_rows = std::clamp<int64_t>(target / row_bytes, 1, std::min<int64_t>(rows, s.out_h));
    plan.block_places = plan.block_rows * plan.slots;
    const int64_t in_plane = ceil_div((plan.block_rows - 1) * s.stride_h + reach + 1, s.stride_h);
    plan.plane_bytes = align_up(in_plane * pitch + s.kernel_w * s.dilation_w * c + kChunkBytes, 64);
    plan.copy_bytes = static_cast<size_t>(plan.plane_bytes * s.stride_h);
    return;
  }
  const int64_t all = ceil_div(s.batch * s.out_h * s.out_w, plan.pixel_splits);
  const int64_t wanted = target / (plan.step + group_out(s) * plan.element) / (2 * kTile) * (2 * kTile);
  plan.block_places = std::min(all, std::max<int64_t>(wanted, 4 * kTile));
  if (plan.source == TileSource::windows)
    plan.copy_bytes = static_cast<size_t>(plan.block_places * plan.step + kChunkBytes);
}

int64_t run_offset(const TilePlan& plan, int64_t run) {
  const ConvShape& s = plan.shape;
  if (plan.source != TileSource::image) return 0;
  const int64_t c = group_in(s) * plan.element, per_row = plan.runs.count / s.kernel_h;
  const int64_t row = run / per_row * s.dilation_h;
  return row % s.stride_h * plan.plane_bytes + row / s.stride_h * plan.columns * c + run % per_row * s.dilation_w * c;
}

}  // namespace

int64_t TileRuns::offset_in_run(int64_t chunk_of_run) const {
  return std::max<int64_t>(0, std::min(chunk_of_run * chunk, length - chunk));
}

void plan_tiles(TilePlan& plan, const ConvShape& shape, TileUnit unit, int element, bool is_residual, int threads,
                std::vector<int64_t>& offsets) {
  plan.shape = shape;
  plan.unit = unit;
  plan.element = element;
  choose_source(plan);
  plan_split(plan, is_residual, threads);
  plan_rounds(plan);
  plan.together = std::clamp<int64_t>(kTogetherBytes / tile_block_bytes(plan), 2, kMostTogether);
  offsets.clear();
  for (int64_t at = 0; at < plan.runs.chunks(); ++at)
    offsets.push_back(run_offset(plan, at / plan.runs.chunks_each) +
                      plan.runs.offset_in_run(at % plan.runs.chunks_each));
  plan.offsets = offsets.data();
  plan.worker_bytes = set_apart(kTilePairSums + plan.copy_bytes);
}

int64_t tile_block_bytes(const TilePlan& plan) { return plan.runs.chunks() * plan.runs.chunk * kTileBlock; }

int64_t tile_packed_bytes(const TilePlan& plan) {
  return plan.shape.groups * blocks_of(plan.shape) * tile_block_bytes(plan);
}

int64_t tile_weight_at(const TilePlan& plan, int64_t o, int64_t k) {
  const TileRuns& runs = plan.runs;
  const int64_t out = group_out(plan.shape), block = o / out * blocks_of(plan.shape) + o % out / kTileBlock;
  const int64_t run = k * plan.element / runs.length, in_run = k * plan.element % runs.length;
  const int64_t chunk = in_run / runs.chunk;
  const int64_t byte = (run * runs.chunks_each + chunk) * runs.chunk + in_run - runs.offset_in_run(chunk);
  return block * tile_block_bytes(plan) + byte / 4 * 4 * kTileBlock + o % out % kTileBlock * 4 + byte % 4;
}

}  // namespace tenon::cpu
