// SPDX-License-Identifier: Apache-2.0
// How the outputs of a TilePlan are cut between workers and into rounds, for kernels with and without tiles.
#pragma once

#include "backends/cpu/kernels/tile_plan.h"
#include "backends/cpu/kernels/f32/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// A round of a worker: places from `first` on, rows of outputs from y0 to before y1 of an image where there is a
// image.
struct TileRound {
  int64_t first, count, image, y0, y1;
};

// A block of output channels: its place among all blocks, its first channel, and how many there are.
struct TileChannels {
  int64_t block, group, first;
  int count;
};

// Calls f(row of the input or -1, where it goes, pixels on its left, inside and on its right) for all rows that the
// round's windows see.
template <class F>
void each_image_row(const TilePlan& plan, const TileRound& round, std::byte* to, const F& f) {
  const ConvShape& s = plan.shape;
  const int64_t pitch = plan.columns * (s.in_c / s.groups) * plan.element;
  const int64_t reach = int64_t{s.kernel_h - 1} * s.dilation_h, first = round.y0 * s.stride_h - s.pad_top;
  const int64_t rows = (round.y1 - round.y0 - 1) * s.stride_h + reach + 1;
  const int64_t left = smaller(plan.columns, s.pad_left), inside = smaller(s.in_w, plan.columns - left);
  for (int64_t row = 0; row < rows; ++row) {
    bool read = false;
    for (int ky = 0; ky < s.kernel_h; ++ky) read |= (row - int64_t{ky} * s.dilation_h) % s.stride_h == 0;
    if (!read) continue;
    // The border to the right of the last row lies before the next plane.
    const int64_t behind = plan.columns - left - inside + (row + s.stride_h >= rows ? s.kernel_w * s.dilation_w : 0);
    const int64_t y = first + row;
    f(y >= 0 && y < s.in_h ? y : -1, to + row % s.stride_h * plan.plane_bytes + row / s.stride_h * pitch, left, inside,
      behind);
  }
}

// Calls f(round, first block of channels, last one, own workspace) for each round of this worker.
template <class F>
void each_round(const TilePlan& plan, const Worker& worker, const F& f) {
  const ConvShape& s = plan.shape;
  if (worker.id >= plan.pixel_splits * plan.channel_splits) return;
  const int64_t blocks = (s.out_c / s.groups + kTileBlock - 1) / kTileBlock * s.groups;
  const int64_t part_m = worker.id / plan.channel_splits, part_n = worker.id % plan.channel_splits;
  const int64_t n0 = blocks * part_n / plan.channel_splits, n1 = blocks * (part_n + 1) / plan.channel_splits;
  // Of an image whole rows are cut, otherwise runs of places.
  const bool rows = plan.source == TileSource::image;
  const int64_t images = rows ? s.batch : 1, all = rows ? s.batch * s.out_h : s.batch * s.out_h * s.out_w;
  const int64_t begin = all * part_m / plan.pixel_splits, end = all * (part_m + 1) / plan.pixel_splits;
  if (n0 >= n1 || begin >= end) return;
  std::byte* const own = worker.workspace + worker.id * plan.worker_bytes;
  const int64_t most = rows ? plan.block_rows : plan.block_places;
  for (int64_t image = 0; image < images; ++image) {
    const int64_t from = rows ? image * s.out_h : 0, to = rows ? from + s.out_h : all;
    const int64_t first = begin > from ? begin : from, count = smaller(end, to) - first;
    const int64_t rounds = count > 0 ? (count + most - 1) / most : 0;
    for (int64_t at = 0; at < rounds; ++at) {
      const int64_t a = first + count * at / rounds, b = first + count * (at + 1) / rounds;
      TileRound round{a, b - a, 0, 0, 0};
      if (rows) round = {0, (b - a - 1) * plan.slots + s.out_w, image, a - from, b - from};
      f(round, n0, n1, own);
    }
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
