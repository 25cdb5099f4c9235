// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/winograd.h"

#include <algorithm>

#include "backends/cpu/kernels/support.h"
#include "backends/cpu/kernels/tactics.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kTransformedBytes = 200 << 10;  // transformed tiles of one block, kept in L2 over all output channels
// Of the weights of F(4 x 4) for each tile: where more are read, F(2 x 2), of less than half the bytes, is faster by
// 1.1 to 2.4 times (AVX-512, 256 to 1536 channels, maps of 3x3 to 10x10), and timing it would take most of a build's
// memory.
constexpr int64_t kMostBytesOfTile = 4 << 20;

const WinogradOps& ops_of(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::winograd_ops;
    case Isa::avx2: return avx2::winograd_ops;
    case Isa::fused: return fused::winograd_ops;
    default: return portable::winograd_ops;
  }
}

// Where a run transforms the weights: of fewer tiles that takes longer than what it saves (F(4 x 4) of 256 channels: 20
// % for 25 tiles, 5 % for 100), and more transformed tiles of a whole map pass through the caches too slowly.
constexpr int64_t kLeastTilesOfTaps = 16, kMostTileBytes = 4 << 20;

// Weights at the points 0, 1, -1, 2, -2 (of tiles of 6) and infinity: powers of the point times its factor.
struct Point {
  double at, factor;
};
constexpr Point kPoints6[] = {{0, 1. / 4}, {1, -1. / 6}, {-1, -1. / 6}, {2, 1. / 24}, {-2, 1. / 24}};
constexpr Point kPoints4[] = {{0, 1}, {1, .5}, {-1, .5}};

/// Row `point` of G for windows of so many taps.
void weights_at(int tile, int point, int taps, double* row) {
  for (int i = 0; i < taps; ++i) row[i] = i + 1 == taps ? 1 : 0;
  if (point + 1 == tile) return;
  const Point& p = (tile == 6 ? kPoints6 : kPoints4)[point];
  double power = p.factor;
  for (int i = 0; i < taps; ++i, power *= p.at) row[i] = power;
}

int tile_of(const ConvShape& s, int m) { return m + s.kernel_h - 1; }

/// Steps of K that a group multiplies of each slice: fours, as groups have them.
int64_t depth_of(const ConvShape& s) { return s.groups == 1 ? align_up(s.in_c / s.slices, 4) : s.in_c / s.groups; }

/// How weights are packed: transformed for all points, of windows of 3x3 or 5x5, or as the nine taps that the direct
/// kernel packs, too.
enum class Form : uint8_t { points, points_of_five, taps };
constexpr int window_of(Form form) { return form == Form::points_of_five ? 5 : 3; }

/// Rows, or columns, between two taps have tiles of their own.
int64_t tiles_along(int64_t out, int64_t dilation, int64_t m) {
  return dilation * ceil_div(ceil_div(out, dilation), m);
}

/// How many places of how many images are multiplied together where channels lie in slices; returns the tiles that are
/// transformed for them.
int64_t plan_slices(WinogradPlan& plan, int64_t target, int threads) {
  constexpr int64_t least_images = 8;
  const ConvShape& s = plan.shape;
  const int64_t places = plan.tiles_h * plan.tiles_w;
  plan.slice_images = s.in_slice / s.in_image;
  const int64_t beyond = (s.slices - 1) * plan.slice_images;
  plan.block_images = std::min(s.batch, std::max(least_images, 2 * beyond));
  const int64_t share = ceil_div(places * ceil_div(s.batch, plan.block_images), threads);
  plan.block_places = std::min({places, share, std::max<int64_t>(1, target / (plan.block_images + beyond))});
  plan.block_tiles = plan.block_images * plan.block_places;
  return (plan.block_images + beyond) * plan.block_places;
}

void plan_blocks(WinogradPlan& plan, const WinogradOps& ops, Form form, int threads) {
  const ConvShape& s = plan.shape;
  const int64_t points = int64_t{plan.tile} * plan.tile;
  plan.tiles_h = tiles_along(s.out_h, s.dilation_h, plan.m);
  plan.tiles_w = tiles_along(s.out_w, s.dilation_w, plan.m);
  plan.tiles = s.batch * plan.tiles_h * plan.tiles_w;
  plan.channels = align_up(s.in_c / s.slices, ops.lanes);
  plan.group_in = s.in_c / s.groups, plan.group_out = s.out_c / s.groups;
  plan.depth = form == Form::taps ? plan.group_in : depth_of(s);
  plan.group_blocks = ceil_div(plan.group_out, ops.block), plan.blocks = plan.group_blocks * s.groups;
  plan.by_channels =
      form == Form::taps || (s.slices == 1 && plan.blocks >= threads && s.out_c > s.batch * s.out_h * s.out_w);
  const int64_t mine = plan.by_channels ? plan.tiles : ceil_div(plan.tiles, threads);
  const int64_t target =
      std::max<int64_t>(2, kTransformedBytes / (points * 4 * plan.channels * ops.tile_pixels)) * ops.tile_pixels;
  plan.block_tiles = plan.by_channels ? plan.tiles : std::min(mine, target);
  const int64_t transformed = s.slices > 1 ? plan_slices(plan, target, threads) : plan.block_tiles;
  // 16 floats keep the points from meeting in one cache set.
  plan.v_point = transformed * plan.channels + 16;
  plan.m_point = plan.block_tiles * ops.block + 16;
  plan.v_floats = set_apart(points * plan.v_point * 4) / 4;
  plan.m_floats = set_apart(points * plan.m_point * 4) / 4;
  plan.u_floats = form == Form::taps ? set_apart(plan.tile * plan.depth * ops.block * 4) / 4 : 0;
  plan.v_buffers = plan.by_channels ? 1 : threads;
}

class WinogradKernel final : public ConvKernel {
 public:
  WinogradKernel(const WinogradOps& ops, int m, Form form, const ConvShape& shape, const Epilogue& epilogue,
                 const float* packed, const float* bias, int threads)
      : ops_(ops), form_(form), zeros_(std::make_shared<AlignedFloats>(shape.in_c)) {
    plan_.epilogue = epilogue;
    bias_ = padded_bias(bias, plan_.epilogue, shape.groups, shape.out_c / shape.groups, ops.block);
    plan_.m = m, plan_.tile = tile_of(shape, m);
    plan_.packed = packed;
    plan_.bias = bias_->data();
    plan_.zeros = zeros_->data();
    fit(shape, threads);
  }
  std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<WinogradKernel>(*this);
    other->fit(shape, threads);
    return other;
  }

  void refer_to(const GivenWeights& weights) override { plan_.weights = weights; }
  size_t workspace_bytes() const override {
    return (plan_.v_buffers * plan_.v_floats + threads_ * (plan_.m_floats + plan_.u_floats)) * sizeof(float);
  }
  void run(const float* in, const float* residual, float* out, const Worker& worker) const override {
    ops_.run(plan_, in, residual, out, worker);
  }

 private:
  void fit(const ConvShape& shape, int threads) {
    plan_.shape = shape;
    threads_ = threads;
    plan_blocks(plan_, ops_, form_, threads);
  }

  const WinogradOps& ops_;
  Form form_;
  int threads_ = 1;
  std::shared_ptr<const AlignedFloats> bias_, zeros_;
  WinogradPlan plan_{};
};

/// Beyond what all forms refuse. Each block of output channels is transformed once, by one worker.
template <Isa kIsa, int kM>
Reason refuses_taps(const ConvShape& s) {
  if (s.in_c / s.groups % 4 != 0) return {Reason::not_multiple, "input channels", 4};
  if (s.out_c < 2 * ops_of(kIsa).block) return {Reason::too_few, 2 * ops_of(kIsa).block, "output channels"};
  const int64_t tiles = s.batch * tiles_along(s.out_h, s.dilation_h, kM) * tiles_along(s.out_w, s.dilation_w, kM);
  if (tiles < kLeastTilesOfTaps) return {Reason::too_few, kLeastTilesOfTaps, "tiles"};
  const int64_t bytes = int64_t{(kM + 2) * (kM + 2)} * s.in_c * tiles * 4;
  return bytes > kMostTileBytes ? Reason(Reason::too_many, kMostTileBytes, "bytes of transformed inputs") : Reason();
}

template <Isa kIsa, int kM, Form kForm>
Reason refuses(const ConvShape& s, const Epilogue&) {
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  constexpr int window = window_of(kForm);
  if (s.kernel_h != window || s.kernel_w != window) return {Reason::window, window == 5 ? "5x5" : "3x3"};
  if (s.stride_h != 1 || s.stride_w != 1) return {Reason::strides, "1"};
  // Tiles of what lies between taps would be empty for the most part.
  if ((s.dilation_h != 1 && s.out_h < kM * s.dilation_h) || (s.dilation_w != 1 && s.out_w < kM * s.dilation_w))
    return Reason::dilated;
  // Four steps of depth are one, and a group has blocks of its own.
  if (s.groups != 1 && (s.in_c / s.groups % 4 != 0 || s.out_c / s.groups * 2 < ops_of(kIsa).block))
    return {Reason::group, "half a block of channels or more, in fours"};
  if (s.slices > 1 && (s.groups != 1 || s.in_image == 0 || s.in_slice % s.in_image != 0))
    return {Reason::strides, "1 over frames"};
  if (kForm == Form::taps)
    if (const Reason reason = refuses_taps<kIsa, kM>(s)) return reason;
  const int64_t tile = tile_of(s, kM);
  if (tile == 4) return {};
  const int64_t tiles = s.batch * tiles_along(s.out_h, s.dilation_h, kM) * tiles_along(s.out_w, s.dilation_w, kM);
  const int64_t bytes = tile * tile * s.in_c / s.groups * s.out_c * 4;
  return bytes / kMostBytesOfTile > tiles ? Reason(Reason::too_few, bytes / kMostBytesOfTile, "tiles") : Reason();
}

template <Isa kIsa, int kM>
size_t packed_floats(const ConvShape& s) {
  const WinogradOps& ops = ops_of(kIsa);
  return static_cast<size_t>(tile_of(s, kM) * tile_of(s, kM)) * s.slices * depth_of(s) *
         align_up(s.out_c / s.groups, ops.block) * s.groups;
}

// G g G^T in double, rounded once.
template <Isa kIsa, int kM, int taps>
void pack(const ConvShape& s, const float* weights, float* packed) {
  constexpr int t = kM + taps - 1;
  double g[t][taps];
  for (int point = 0; point < t; ++point) weights_at(t, point, taps, g[point]);
  const WinogradOps& ops = ops_of(kIsa);
  const int64_t depth = s.slices * depth_of(s), block = ops.block, in = s.in_c / s.groups, out = s.out_c / s.groups,
                of_slice = in / s.slices;
  std::fill_n(packed, packed_floats<kIsa, kM>(s), 0.f);
  const auto sum = [](const double* row, const auto& value) {
    double all = row[0] * value(0);
    for (int i = 1; i < taps; ++i) all += row[i] * value(i);
    return all;
  };
  for (int64_t n = 0; n < s.out_c; ++n) {
    const int64_t place = n / out * align_up(out, block) + n % out;  // among the channels of whole blocks
    for (int64_t c = 0; c < in; ++c) {
      const float* w = weights + (n * in + c) * taps * taps;
      double half[t][taps];
      for (int a = 0; a < t; ++a)
        for (int x = 0; x < taps; ++x) half[a][x] = sum(g[a], [&](int y) { return double{w[y * taps + x]}; });
      const int64_t step = c / of_slice * depth_of(s) + c % of_slice;
      float* to = packed + ((place / block * t * t) * depth + step) * block + place % block;
      for (int p = 0; p < t * t; ++p, to += depth * block)
        *to = static_cast<float>(sum(g[p % t], [&](int x) { return half[p / t][x]; }));
    }
  }
}

template <Isa kIsa, int kM, Form kForm>
std::unique_ptr<ConvKernel> make(const ConvShape& shape, const Epilogue& epilogue, const float* packed,
                                 const float* bias, int threads) {
  return std::make_unique<WinogradKernel>(ops_of(kIsa), kM, kForm, shape, epilogue, packed, bias, threads);
}

template <Isa kIsa, int kM, Form kForm>
ConvTactic tactic() {
  if constexpr (kForm == Form::taps) {
    const ConvTactic direct = direct_tactic(kIsa);
    return {kM == 4 ? "winograd4_taps" : "winograd2_taps", refuses<kIsa, kM, kForm>, direct.packed_floats, direct.pack,
            make<kIsa, kM, kForm>};
  } else {
    return {kForm == Form::points_of_five ? "winograd_5x5"
            : kM == 4                     ? "winograd4"
                                          : "winograd2",
            refuses<kIsa, kM, kForm>,
            packed_floats<kIsa, kM>,
            pack<kIsa, kM, window_of(kForm)>,
            make<kIsa, kM, kForm>,
            [](const ConvShape& s) { return s.slices; }};
  }
}

template <int kM, Form kForm>
ConvTactic tactic_for(Isa isa) {
  return by_vectors(isa, []<Isa kIsa>() { return tactic<kIsa, kM, kForm>(); });
}

}  // namespace

ConvTactic winograd4_tactic(Isa isa) { return tactic_for<4, Form::points>(isa); }
ConvTactic winograd2_tactic(Isa isa) { return tactic_for<2, Form::points>(isa); }
ConvTactic winograd_5x5_tactic(Isa isa) { return tactic_for<2, Form::points_of_five>(isa); }
ConvTactic winograd4_taps_tactic(Isa isa) { return tactic_for<4, Form::taps>(isa); }
ConvTactic winograd2_taps_tactic(Isa isa) { return tactic_for<2, Form::taps>(isa); }

}  // namespace tenon::cpu
