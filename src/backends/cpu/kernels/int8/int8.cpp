// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/int8.h"

#include <algorithm>
#include <map>
#include <vector>

#include "backends/cpu/kernels/int8/int8_support.h"
#include "backends/cpu/kernels/int8_packing.h"
#include "backends/cpu/kernels/parts.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kMostPanelBytes = 24 << 10;  // of a block's weights, beside the windows in L1
constexpr int64_t kSmallBlockBytes = 24 << 10, kLargeBlockBytes = 128 << 10, kResidentWeights = 256 << 10;
constexpr int64_t kMinTiles = 4, kMaxTiles = 170, kMaxTilesOfSums = 24;
constexpr int64_t kLeastOutside = 50;  // of as many rows of windows one lies outside
constexpr int64_t kMostPieces = 16;  // that a run is cut into

// How a window's numbers lie: neighbours that are multiplied together are never of two runs.
struct WindowRuns {
  int64_t count, numbers;  // of them in a slice of the channels, and in each
  bool rows;               // a run is a row of the kernel, or else a tap
};

WindowRuns runs_of(const ConvShape& s) {
  const bool rows = s.groups == 1 && s.dilation_w == 1;
  const int64_t channels = group_in(s) / s.slices;
  return {rows ? s.kernel_h : int64_t{s.kernel_h} * s.kernel_w, rows ? s.kernel_w * channels : channels, rows};
}

bool are_pixels(const ConvShape& s) {
  return s.slices == 1 && s.kernel_h == 1 && s.kernel_w == 1 && s.pad_top == 0 && s.pad_left == 0 &&
         (s.out_h - 1) * s.stride_h < s.in_h && (s.out_w - 1) * s.stride_w < s.in_w;
}

// Of windows that are pixels: whether they lie one behind the other in the image.
bool are_neighbours(const ConvShape& s) {
  return s.stride_h == 1 && s.stride_w == 1 && s.in_h == s.out_h && s.in_w == s.out_w &&
         s.in_row == s.in_w * s.in_pixel && s.in_image == s.in_h * s.in_row;
}

class Int8DirectKernel final : public Int8Kernel {
 public:
  Int8DirectKernel(const Int8Conv& conv, Isa isa, Int8Form form, int threads)
      : ops_(int8_ops(isa)),
        run_(ops_.runs[static_cast<size_t>(form)]),
        lists_(std::make_shared<Int8Lists>(conv, ops_.block)) {
    plan_.shape = conv.shape;
    plan_.output = lists_->output();
    plan_.in_zero = conv.in_zero, plan_.in_scale = conv.in_scale;
    plan_.in_low = conv.in_low, plan_.in_high = conv.in_high;
    plan_.number_bytes = form == Int8Form::int16 || takes_floats(form) ? 2 : 1;
    keeps_zero_ = form != Int8Form::int16;
    if (form == Int8Form::dot) shifts_ = shifts_of(conv, ops_.block);
    if (shifts_) plan_.shifts = shifts_->data();
    plan_runs();
    pack(conv);
    if (!conv.dynamic && !shifts_) part_sums_ = part_sums_of(conv);
    plan_parts();
    plan_split(threads);
    plan_workspace();
  }

  std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Int8DirectKernel>(*this);
    other->plan_.shape = shape;
    other->plan_runs();
    if (other->numbers_ != numbers_ || other->units() != units()) return nullptr;
    other->plan_parts();
    other->plan_split(threads);
    other->plan_workspace();
    return other;
  }
  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_->bytes.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
           const Worker& worker) const override {
    Int8Plan plan = plan_;
    plan.in_zero = in_zero;
    each_part(worker, plan.pixel_splits * plan.channel_splits,
              [&](const Worker& part) { run_(plan, in, residual, out, part); });
  }

 private:
  int64_t units() const { return plan_.run_count * plan_.run_units; }
  bool is_int16() const { return plan_.number_bytes == 2; }

  void plan_runs() {
    const ConvShape& s = plan_.shape;
    const int64_t per_unit = is_int16() ? 2 : 4, pixel = s.in_c / s.slices * plan_.number_bytes;
    const WindowRuns runs = runs_of(s);
    numbers_ = plan_.run_numbers = runs.numbers;
    plan_.pixels = are_pixels(s);
    plan_.in_place = plan_.pixels && !is_int16() && are_neighbours(s) && numbers_ % per_unit == 0;
    plan_.pitch = plan_.in_place ? s.in_pixel : pixel;
    plan_.band_row = ((s.out_w - 1) * s.stride_w + int64_t{s.kernel_w - 1} * s.dilation_w + 1) * pixel;
    const int64_t pieces = plan_.run_pieces = cut_runs(s.slices * runs.count, ceil_div(numbers_, per_unit));
    in_slice_.clear();
    for (int64_t run = 0; run < runs.count; ++run) {
      const int64_t y = runs.rows ? run : run / s.kernel_w, x = runs.rows ? 0 : run % s.kernel_w;
      for (int64_t piece = 0; piece < pieces; ++piece)
        in_slice_.push_back(y * s.dilation_h * plan_.band_row + x * s.dilation_w * pixel + piece * plan_.run_units * 4);
    }
  }

  // Cuts runs of so many units into equal pieces, so that few panels hold them; returns how many pieces.
  int64_t cut_runs(int64_t count, int64_t length) {
    const int64_t most = kMostPanelBytes / (ops_.block * 4);
    int64_t best = INT64_MAX, pieces = 1;
    for (int64_t p = 1; p <= kMostPieces; ++p) {
      if (length % p) continue;
      const int64_t each = length / p, together = std::clamp<int64_t>(most / each, 1, count * p);
      const int64_t panels = ceil_div(count * p, together);
      const int64_t cost = std::max<int64_t>(0, each - most) * 1000 + panels * kMostPieces + p;
      if (cost >= best) continue;
      best = cost;
      pieces = p;
      plan_.run_count = count * p;
      plan_.run_units = each;
      plan_.run_block = ceil_div(plan_.run_count, panels);
    }
    return pieces;
  }

  void pack(const Int8Conv& conv) {
    const ConvShape& s = plan_.shape;
    const bool int16 = is_int16();
    const int64_t per_unit = int16 ? 2 : 4, block = ops_.block, padded = align_up(group_out(s), block);
    const int64_t run_slots = ceil_div(numbers_, per_unit) * per_unit;  // of numbers
    const auto fill = [&](std::byte* bytes, int32_t* start) {
      each_weight(conv, block, [&](int64_t group, int64_t n, int64_t given, int channel, int16_t w) {
        const int64_t k = slice_by_slice(given), at = k / numbers_ * run_slots + k % numbers_;
        const int64_t unit = ((group * padded / block + n) * units() + at / per_unit) * block + channel;
        std::byte* const to = bytes + unit * 4;
        if (int16) reinterpret_cast<int16_t*>(to)[at % 2] = w;
        else
          reinterpret_cast<int8_t*>(to)[at % 4] =
              static_cast<int8_t>(w - shift_of(group * padded + n * block + channel));
        if (keeps_zero_) add_products(start[group * padded + n * block + channel], -conv.in_zero, w);
      });
    };
    static const char tactic = 0;
    packed_ = packed_int8(conv, &tactic, static_cast<size_t>(s.groups * padded * units() * 4),
                          static_cast<size_t>(s.groups * padded),
                          {int16 + 2 * keeps_zero_, numbers_, units(), block, conv.in_zero}, fill);
    plan_.packed = packed_->bytes.data();
    plan_.start = packed_->start.data();
  }

  // Rows of the kernel, or slices where there are several: parts of windows that may be left out.
  int64_t parts() const { return plan_.shape.slices > 1 ? plan_.shape.slices : plan_.shape.kernel_h; }

  // What the weights of each part add to where the sums of a channel begin.
  std::shared_ptr<const std::vector<int32_t>> part_sums_of(const Int8Conv& conv) const {
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(group_out(s), ops_.block), channels = padded * s.groups;
    auto sums = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(channels * parts()));
    if (!keeps_zero_) return sums;
    each_weight(conv, ops_.block, [&](int64_t group, int64_t n, int64_t k, int channel, int16_t w) {
      const int64_t c = group_in(s), part = s.slices > 1 ? k % c / (c / s.slices) : k / c / s.kernel_w;
      add_products((*sums)[static_cast<size_t>(part * channels + group * padded + n * ops_.block + channel)],
                   -conv.in_zero, w);
    });
    return sums;
  }

  // Where sums begin of which so many parts before and behind the others are left out.
  const int32_t* starts_without(int64_t above, int64_t below) {
    const size_t channels = part_sums_->size() / static_cast<size_t>(parts());
    auto [found, is_new] = starts_.try_emplace({above, below}, channels, 0);
    for (int64_t part = above; is_new && part < parts() - below; ++part)
      for (size_t c = 0; c < channels; ++c)
        add_products(found->second[c], (*part_sums_)[static_cast<size_t>(part) * channels + c], 1);
    return found->second.data();
  }

  void plan_parts() {
    plan_.part_starts = nullptr, part_starts_.clear(), starts_.clear();
    if (!part_sums_) return;
    if (plan_.shape.slices > 1) plan_frames();
    else plan_rows();
    if (!part_starts_.empty()) plan_.part_starts = part_starts_.data();
  }

  void plan_frames() {
    const ConvShape& s = plan_.shape;
    for (int64_t image = 0; s.frame && image < s.batch; ++image) {
      const FramesOutside frames(s, image);
      part_starts_.push_back(starts_without(frames.above, frames.below));
    }
  }

  // Rows of windows outside the image are left out where they are a part of all that is worth it.
  void plan_rows() {
    const ConvShape& s = plan_.shape;
    if (plan_.pixels) return;
    int64_t outside = 0;
    for (int64_t y = 0; y < s.out_h; ++y) {
      const RowsOutside rows(s, y);
      if (rows.above + rows.below >= s.kernel_h) return;
      outside += rows.above + rows.below;
    }
    if (outside * kLeastOutside < s.out_h * s.kernel_h) return;
    for (int64_t y = 0; y < s.out_h; ++y) {
      const RowsOutside rows(s, y);
      part_starts_.push_back(starts_without(rows.above, rows.below));
    }
  }

  int32_t shift_of(int64_t place) const { return shifts_ ? (*shifts_)[static_cast<size_t>(place)] : 0; }

  // Where a weight, counted tap after tap, stands where a slice's are counted before those of the next.
  int64_t slice_by_slice(int64_t k) const {
    const ConvShape& s = plan_.shape;
    if (s.slices == 1) return k;
    const int64_t each = s.in_c / s.slices, tap = k / s.in_c, channel = k % s.in_c;
    return (channel / each * s.kernel_h * s.kernel_w + tap) * each + channel % each;
  }

  // As DirectKernel cuts its work, but by pixels: tiles need not be whole.
  void plan_split(int threads) {
    const ConvShape& s = plan_.shape;
    const int64_t pixels = s.batch * s.out_h * s.out_w;
    const int64_t blocks = ceil_div(group_out(s), ops_.block) * s.groups;
    const auto weights = static_cast<int64_t>(packed_->bytes.size());
    const int64_t inputs = s.batch * s.in_h * s.in_w * s.in_c;
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      if (threads % n) continue;
      const int m = threads / n;
      const int64_t cost =
          ceil_div(pixels, m) * ceil_div(blocks, n) * units() + weights / n / 8 + inputs / m / (n > 1 ? 4 : 8);
      if (cost >= best) continue;
      best = cost;
      plan_.pixel_splits = m;
      plan_.channel_splits = n;
    }
    const int64_t target = weights / plan_.channel_splits <= kResidentWeights ? kSmallBlockBytes : kLargeBlockBytes;
    const int64_t most = std::min(plan_.run_block < plan_.run_count ? kMaxTilesOfSums : kMaxTiles,
                                  ceil_div(ceil_div(pixels, plan_.pixel_splits), ops_.tile_pixels));
    const int64_t pixel_bytes =
        plan_.pixels ? plan_.pitch : std::max<int64_t>(1, s.slices * s.stride_h * plan_.band_row / s.out_w);
    const int64_t wanted = std::max(kMinTiles, target / (pixel_bytes * ops_.tile_pixels));
    plan_.block_pixels = std::min(most, wanted) * ops_.tile_pixels;
  }

  void plan_workspace() {
    const bool once = plan_.run_block == plan_.run_count;
    const int64_t places = once ? kTilesTogether * ops_.tile_pixels : plan_.block_pixels;
    plan_.sums_bytes = static_cast<size_t>(places * ops_.block * 4);
    plan_.list_bytes = plan_.pixels ? 0 : align_up(static_cast<size_t>(plan_.block_pixels) * sizeof(void*), 64);
    plan_.band_slice = static_cast<int64_t>(copied_bytes());
    plan_.window_bytes = shifts_ ? align_up(static_cast<size_t>(plan_.block_pixels) * sizeof(int32_t), 64) : 0;
    plan_.worker_bytes =
        set_apart(plan_.sums_bytes + plan_.list_bytes + plan_.window_bytes + plan_.shape.slices * copied_bytes());
    runs_.clear();
    for (int64_t slice = 0; slice < plan_.shape.slices; ++slice)
      for (const int64_t run : in_slice_) runs_.push_back(slice * plan_.band_slice + run);
    plan_.runs = runs_.data();
  }

  // Of a slice.
  size_t copied_bytes() const {
    const ConvShape& s = plan_.shape;
    if (plan_.in_place) return 0;
    if (plan_.pixels) return static_cast<size_t>(plan_.block_pixels * plan_.pitch);
    // A block may begin and end within rows, and within images.
    const int64_t rows = (plan_.block_pixels + s.out_w - 2) / s.out_w + 1, images = (rows + s.out_h - 2) / s.out_h + 1;
    return static_cast<size_t>((rows * s.stride_h + images * (int64_t{s.kernel_h - 1} * s.dilation_h + 1)) *
                               plan_.band_row);
  }

  const Int8Ops& ops_;
  void (*run_)(const Int8Plan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
  std::shared_ptr<const Int8Lists> lists_;
  Int8Plan plan_{};
  bool keeps_zero_;  // numbers that are multiplied are not less the zero point
  int64_t numbers_;  // of a run before it is cut
  std::vector<int64_t> in_slice_, runs_;  // where the runs of a slice begin, and those of all
  std::shared_ptr<const Int8Packed> packed_;
  std::shared_ptr<const std::vector<int32_t>> shifts_, part_sums_;
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> starts_;  // by parts left out, before and behind
  std::vector<const int32_t*> part_starts_;
};

Reason refuses_direct(const Int8Conv& conv) {
  const ConvShape& s = conv.shape;
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  for (int64_t image = 0; s.frame && image < s.batch; ++image)
    if (const FramesOutside frames(s, image); frames.above + frames.below >= s.slices)
      return {Reason::shape, "the input", "a frame for each image"};
  return {};
}

// Any weights of a channel that a shift makes bytes of.
Reason refuses_dot(const Int8Conv& conv) {
  if (const Reason reason = refuses_direct(conv)) return reason;
  for (int64_t o = 0; o < conv.shape.out_c; ++o)
    if (const auto [low, high] = ends_of(conv, o); high - low > UINT8_MAX)
      return {Reason::element_type, "weights", "8 bits"};
  return {};
}

// vpmaddubsw adds two products of an unsigned and a signed byte within 16 signed bits: 255 * 128 fits, more does not.
Reason refuses_int8x2(const Int8Conv& conv) {
  if (const Reason reason = refuses_bytes(conv)) return reason;
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), taps = int64_t{s.kernel_h} * s.kernel_w, k = c * taps;
  if (runs_of(s).numbers % 2) return {Reason::not_multiple, "weights of a kernel row", 2};
  if (s.slices > 1 && s.in_c / s.slices % 2) return {Reason::not_multiple, "channels of a frame", 2};
  for (int64_t o = 0; o < s.out_c; ++o) {
    const int16_t* const weights = conv.weights + o * k;
    for (int64_t at = 0; at + 1 < k; at += 2) {  // tap after tap, as they are packed
      const int a = weights[at % c * taps + at / c], b = weights[(at + 1) % c * taps + (at + 1) / c];
      if (std::max(a, 0) + std::max(b, 0) > 128 || std::min(a, 0) + std::min(b, 0) < -128)
        return {Reason::overflow, "sums of two products", 16};
    }
  }
  return {};
}

// Sums within 32 bits, whatever the inputs are.
Reason refuses_of_floats(const Int8Conv& conv) {
  if (conv.in_high - conv.in_low < UINT16_MAX) return {Reason::element_type, "the input", "of 16 bits"};
  if (const Reason reason = refuses_direct(conv)) return reason;
  const int64_t k = group_in(conv.shape) * conv.shape.kernel_h * conv.shape.kernel_w;
  for (int64_t o = 0; o < conv.shape.out_c; ++o)
    if (!ops::holds_sums({conv.weights + o * k, static_cast<size_t>(k)}, conv.in_low, conv.in_high))
      return {Reason::overflow, "sums of products", 32};
  return {};
}

template <Int8Form kForm>
std::unique_ptr<Int8Kernel> make(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8DirectKernel>(conv, isa, kForm, threads);
}

}  // namespace

Reason refuses_bytes(const Int8Conv& conv) {
  if (const Reason reason = refuses_direct(conv)) return reason;
  const int64_t count = conv.shape.out_c * group_in(conv.shape) * conv.shape.kernel_h * conv.shape.kernel_w;
  for (int64_t at = 0; at < count; ++at)
    if (conv.weights[at] < INT8_MIN || conv.weights[at] > INT8_MAX) return {Reason::element_type, "weights", "8 bits"};
  return {};
}

const Int8Ops& int8_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::int8_ops;
    case Isa::avx2: return avx2::int8_ops;
    default: return portable::int8_ops;
  }
}

std::span<const Int8Tactic> int8_tactics() {
  static constexpr Int8Tactic tactics[] = {
      {"int8x2", refuses_int8x2, make<Int8Form::int8x2>},
      {"int8_int16", refuses_direct, make<Int8Form::int16>},
      {"int8_dot", refuses_dot, make<Int8Form::dot>},
      {"int8_depthwise", refuses_depthwise, make_depthwise},
      {"int8_winograd", refuses_winograd8, make_winograd8},
      {"int8_tiles", refuses_tiles, make_tiles},
      {"int8_columns", refuses_columns, make_columns},
      {"int8_quads", refuses_quads, make_quads},
      {"int16", refuses_of_floats, make<Int8Form::of_floats>},
      {"int16_dot", refuses_of_floats, make<Int8Form::of_floats_dot>},
  };
  return tactics;
}

}  // namespace tenon::cpu
