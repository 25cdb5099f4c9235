#include "backends/cpu/kernels/int8.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "backends/cpu/kernels/int8_tactics.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

namespace {

// Elements of K per block: a weight panel of 1024 x 16 bytes is half of L1.
constexpr int64_t kBlockK = 1024;
constexpr int64_t kSmallBlockBytes = 24 << 10, kLargeBlockBytes = 128 << 10, kResidentWeights = 256 << 10;
constexpr int64_t kMinTiles = 4, kMaxTiles = 170;

int64_t group_in(const ConvShape& s) { return s.in_c / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_c / s.groups; }

// Calls f(group, block, k, channel of the block, weight) in the order [group][block][tap][channel][output].
template <class F>
void each_weight(const Int8Conv& conv, int64_t block, const F& f) {
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), out = group_out(s), taps = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t o = 0; o < s.out_c; ++o)
    for (int64_t i = 0; i < c; ++i)
      for (int64_t tap = 0; tap < taps; ++tap)
        f(o / out, o % out / block, tap * c + i, static_cast<int>(o % out % block),
          conv.weights[(o * c + i) * taps + tap]);
}

class Int8DirectKernel final : public Int8Kernel {
 public:
  Int8DirectKernel(const Int8Conv& conv, Isa isa, Int8Form form, int threads)
      : ops_(int8_ops(isa)),
        form_(form == Int8Form::pairs   ? ops_.pairs
              : form == Int8Form::words ? ops_.words
                                        : ops_.dot) {
    const ConvShape& s = conv.shape;
    plan_windows(plan_, s, kBlockK);
    const int64_t blocks = ceil_div(group_out(s), ops_.block), padded = blocks * ops_.block;
    pack(conv, form, blocks);
    start_.assign(static_cast<size_t>(padded * s.groups), 0);
    multiplier_ = AlignedFloats(padded * s.groups);
    bias_ = AlignedFloats(padded * s.groups);
    each_weight(conv, ops_.block, [&](int64_t group, int64_t n, int64_t, int channel, int8_t w) {
      start_[group * padded + n * ops_.block + channel] -= conv.in_zero * w;
    });
    for (int64_t o = 0; o < s.out_c; ++o) {
      const int64_t at = o / group_out(s) * padded + o % group_out(s);
      multiplier_[at] = conv.multiplier[o];
      bias_[at] = conv.bias ? conv.bias[o] : 0;
    }
    zeros_.assign(static_cast<size_t>(plan_.rows ? s.kernel_w * group_in(s) : plan_.chunk) + 4,
                  static_cast<uint8_t>(conv.in_zero));
    plan_.zeros = zeros_.data();
    plan_.start = start_.data();
    plan_.packed = packed_.data();
    plan_.output = {conv.epilogue,      multiplier_.data(), bias_.data(),  conv.residual_scale,
                    conv.residual_zero, conv.inverse_scale, conv.out_zero};
    plan_split(threads);
    plan_.worker_bytes = align_up(form_.worker_bytes(plan_), 4096) + 256;
  }

  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_.size(); }
  void run(const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) const override {
    form_.run(plan_, in, residual, out, worker);
  }

 private:
  void pack(const Int8Conv& conv, Int8Form form, int64_t blocks) {
    const int64_t block = ops_.block, lanes = block / 2, steps = plan_.k / 4;
    const int64_t step_bytes = block * (form == Int8Form::words ? 8 : 4);
    packed_.assign(static_cast<size_t>(conv.shape.groups * blocks * steps * step_bytes), 0);
    std::vector<int> place(static_cast<size_t>(block));  // of an output channel's four weights, in fours
    for (int at = 0; at < block; ++at)
      place[form != Int8Form::words ? at : word_channel(static_cast<int>(lanes), at / static_cast<int>(lanes / 2),
                                                        at % static_cast<int>(lanes / 2))] = at;
    each_weight(conv, block, [&](int64_t group, int64_t n, int64_t k, int channel, int8_t w) {
      const int64_t at = ((group * blocks + n) * steps + k / 4) * step_bytes;
      if (form != Int8Form::words) packed_[at + place[channel] * 4 + k % 4] = w;
      else reinterpret_cast<int16_t*>(packed_.data() + at)[place[channel] * 4 + k % 4] = w;
    });
  }

  // As DirectKernel cuts its work; three cycles per tile and element of K.
  void plan_split(int threads) {
    const ConvShape& s = plan_.shape;
    const int64_t tiles = ceil_div(s.batch * s.out_h * s.out_w, form_.tile_pixels);
    const int64_t blocks = ceil_div(group_out(s), ops_.block) * s.groups;
    const auto weights = static_cast<int64_t>(packed_.size());
    const int64_t inputs = s.batch * s.in_h * s.in_w * s.in_c;
    int64_t best = INT64_MAX;
    for (int n = 1; n <= threads; ++n) {
      if (threads % n) continue;
      const int m = threads / n;
      const int64_t cost = ceil_div(tiles, m) * ceil_div(blocks, n) * plan_.k * form_.tile_pixels / 2 +
                           weights / n / 8 + inputs / m / (n > 1 ? 4 : 8);
      if (cost >= best) continue;
      best = cost;
      plan_.pixel_splits = m;
      plan_.channel_splits = n;
    }
    const int64_t reach = s.kernel_h * s.kernel_w > 1 ? s.stride_h * s.stride_w : 1;
    const int64_t tile_bytes = group_in(s) * reach * form_.tile_pixels;
    const int64_t target = weights / plan_.channel_splits <= kResidentWeights ? kSmallBlockBytes : kLargeBlockBytes;
    const int64_t most = std::min(kMaxTiles, ceil_div(tiles, plan_.pixel_splits));
    plan_.block_tiles = static_cast<int>(std::min(most, std::max(kMinTiles, target / tile_bytes)));
  }

  const Int8Ops& ops_;
  const Int8FormOps& form_;
  Int8Plan plan_{};
  std::vector<int8_t> packed_;
  std::vector<int32_t> start_;
  AlignedFloats multiplier_, bias_;
  std::vector<uint8_t> zeros_;
};

const char* refuses_direct(const Int8Conv& conv) {
  if (conv.shape.in_nchw) return "reads NHWC only";
  return group_in(conv.shape) % 4 ? "needs a multiple of four channels in a group" : nullptr;
}

// vpmaddubsw adds two products of an unsigned and a signed byte within 16 signed bits: 255 * 128 fits, more does not.
const char* refuses_pairs(const Int8Conv& conv) {
  if (const char* reason = refuses_direct(conv)) return reason;
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), taps = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t o = 0; o < s.out_c; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t i = 0; i < c; i += 2) {
        const int a = conv.weights[(o * c + i) * taps + tap], b = conv.weights[(o * c + i + 1) * taps + tap];
        if (std::max(a, 0) + std::max(b, 0) > 128 || std::min(a, 0) + std::min(b, 0) < -128)
          return "two neighbouring weights add up to more than 128";
      }
  return nullptr;
}

template <Int8Form kForm>
std::unique_ptr<Int8Kernel> make(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8DirectKernel>(conv, isa, kForm, threads);
}

}  // namespace

const Int8Ops& int8_ops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return avx512::int8_ops;
    case Isa::avx2: return avx2::int8_ops;
    default: return portable::int8_ops;
  }
}

std::span<const Int8Tactic> int8_tactics() {
  static constexpr Int8Tactic tactics[] = {
      {"int8_pairs", refuses_pairs, make<Int8Form::pairs>},
      {"int8_words", refuses_direct, make<Int8Form::words>},
      {"int8_dot", refuses_direct, make<Int8Form::dot>},
      {"int8_depthwise", refuses_depthwise, make_depthwise},
  };
  return tactics;
}

}  // namespace tenon::cpu
