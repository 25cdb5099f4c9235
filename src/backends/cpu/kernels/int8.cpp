#include "backends/cpu/kernels/int8.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/int8_support.h"
#include "backends/cpu/kernels/packed_bytes.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kMostPanelBytes = 12 << 10;  // of a block's weights, beside the windows in L1
constexpr int64_t kSmallBlockBytes = 24 << 10, kLargeBlockBytes = 128 << 10, kResidentWeights = 256 << 10;
constexpr int64_t kMinTiles = 4, kMaxTiles = 170;

// Pixels that lie one behind the other are windows already.
bool are_windows(const ConvShape& s, int per_unit) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 &&
         s.pad_left == 0 && s.in_h == s.out_h && s.in_w == s.out_w && s.in_row == s.in_w * s.in_pixel &&
         s.in_image == s.in_h * s.in_row && group_in(s) % (per_unit * kUnitStep) == 0;
}

class Int8DirectKernel final : public Int8Kernel {
 public:
  Int8DirectKernel(const Int8Conv& conv, Isa isa, Int8Form form, int threads)
      : ops_(int8_ops(isa)), form_(ops_.forms[static_cast<size_t>(form)]), lists_(conv, ops_.block) {
    const ConvShape& s = conv.shape;
    const bool words = form == Int8Form::words;
    const int64_t per_unit = words ? 2 : 4, block = ops_.block, padded = align_up(group_out(s), block);
    plan_.shape = s;
    plan_.output = lists_.output();
    plan_.in_zero = conv.in_zero;
    plan_.units = align_up(ceil_div(group_in(s) * s.kernel_h * s.kernel_w, per_unit), kUnitStep);
    const int64_t panels = ceil_div(plan_.units * block * 4, kMostPanelBytes);
    plan_.unit_block = align_up(ceil_div(plan_.units, panels), kUnitStep);
    plan_.in_place = !words && are_windows(s, static_cast<int>(per_unit));
    plan_.pitch = plan_.in_place ? s.in_pixel : plan_.units * 4;

    packed_ = PackedBytes(static_cast<size_t>(s.groups * padded * plan_.units * 4));
    start_.assign(static_cast<size_t>(s.groups * padded), 0);
    each_weight(conv, block, [&](int64_t group, int64_t n, int64_t k, int channel, int16_t w) {
      const int64_t unit = ((group * padded / block + n) * plan_.units + k / per_unit) * block + channel;
      std::byte* const to = packed_.data() + unit * 4;
      if (words) reinterpret_cast<int16_t*>(to)[k % 2] = w;
      else reinterpret_cast<int8_t*>(to)[k % 4] = static_cast<int8_t>(w);
      if (!words) start_[group * padded + n * block + channel] -= conv.in_zero * w;
    });
    plan_.packed = packed_.data();
    plan_.start = start_.data();
    plan_split(threads);
    plan_.worker_bytes = align_up(form_.worker_bytes(plan_), 4096) + 256;
  }

  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_.size(); }
  void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
           const Worker& worker) const override {
    Int8Plan plan = plan_;
    plan.in_zero = in_zero;
    form_.run(plan, in, residual, out, worker);
  }

 private:
  // As DirectKernel cuts its work; three cycles per tile and unit.
  void plan_split(int threads) {
    const ConvShape& s = plan_.shape;
    const int64_t tiles = ceil_div(s.batch * s.out_h * s.out_w, ops_.tile_pixels);
    const int64_t blocks = ceil_div(group_out(s), ops_.block) * s.groups;
    const auto weights = static_cast<int64_t>(packed_.size());
    const int64_t inputs = s.batch * s.in_h * s.in_w * s.in_c;
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      if (threads % n) continue;
      const int m = threads / n;
      const int64_t cost = ceil_div(tiles, m) * ceil_div(blocks, n) * plan_.units * ops_.tile_pixels +
                           weights / n / 8 + inputs / m / (n > 1 ? 4 : 8);
      if (cost >= best) continue;
      best = cost;
      plan_.pixel_splits = m;
      plan_.channel_splits = n;
    }
    const int64_t target = weights / plan_.channel_splits <= kResidentWeights ? kSmallBlockBytes : kLargeBlockBytes;
    const int64_t most = std::min(kMaxTiles, ceil_div(tiles, plan_.pixel_splits));
    const int64_t wanted = std::max(kMinTiles, target / (plan_.units * 4 * ops_.tile_pixels));
    plan_.block_pixels = std::min(most, wanted) * ops_.tile_pixels;
  }

  const Int8Ops& ops_;
  const Int8FormOps& form_;
  Int8Lists lists_;
  Int8Plan plan_{};
  PackedBytes packed_;
  std::vector<int32_t> start_;
};

const char* refuses_direct(const Int8Conv& conv) { return conv.shape.in_nchw ? "reads NHWC only" : nullptr; }

// vpmaddubsw adds two products of an unsigned and a signed byte within 16 signed bits: 255 * 128 fits, more does not.
const char* refuses_pairs(const Int8Conv& conv) {
  if (const char* reason = refuses_bytes(conv)) return reason;
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), taps = int64_t{s.kernel_h} * s.kernel_w, k = c * taps;
  for (int64_t o = 0; o < s.out_c; ++o) {
    const int16_t* const weights = conv.weights + o * k;
    for (int64_t at = 0; at + 1 < k; at += 2) {  // tap after tap, as they are packed
      const int a = weights[at % c * taps + at / c], b = weights[(at + 1) % c * taps + (at + 1) / c];
      if (std::max(a, 0) + std::max(b, 0) > 128 || std::min(a, 0) + std::min(b, 0) < -128)
        return "two neighbouring weights add up to more than 128";
    }
  }
  return nullptr;
}

template <Int8Form kForm>
std::unique_ptr<Int8Kernel> make(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8DirectKernel>(conv, isa, kForm, threads);
}

}  // namespace

const char* refuses_bytes(const Int8Conv& conv) {
  if (const char* reason = refuses_direct(conv)) return reason;
  const int64_t count = conv.shape.out_c * group_in(conv.shape) * conv.shape.kernel_h * conv.shape.kernel_w;
  for (int64_t at = 0; at < count; ++at)
    if (conv.weights[at] < INT8_MIN || conv.weights[at] > INT8_MAX) return "a weight is no byte";
  return nullptr;
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
      {"int8_pairs", refuses_pairs, make<Int8Form::pairs>},
      {"int8_words", refuses_direct, make<Int8Form::words>},
      {"int8_dot", refuses_bytes, make<Int8Form::dot>},
      {"int8_depthwise", refuses_depthwise, make_depthwise},
      {"int8_winograd", refuses_winograd8, make_winograd8},
      {"int8_tiles", refuses_tiles, make_tiles},
      {"int8_columns", refuses_columns, make_columns},
  };
  return tactics;
}

}  // namespace tenon::cpu
