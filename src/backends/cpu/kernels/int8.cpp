#include "backends/cpu/kernels/int8.h"

#include <vector>

#include "backends/cpu/kernels/int8_support.h"

namespace tenon::cpu {

namespace {

// Elements of K per block: a weight panel of 1024 x 16 bytes is half of L1.
constexpr int64_t kBlockK = 1024;

class Int8DirectKernel final : public Int8Kernel {
 public:
  Int8DirectKernel(const Int8Conv& conv, Isa isa, Int8Form form, int threads)
      : ops_(int8_ops(isa)), form_(form == Int8Form::pairs ? ops_.pairs : ops_.dot), lists_(conv, ops_.block) {
    const ConvShape& s = conv.shape;
    plan_windows(plan_, s, kBlockK);
    const int64_t blocks = ceil_div(group_out(s), ops_.block), padded = blocks * ops_.block;
    pack(conv, blocks);
    start_.assign(static_cast<size_t>(padded * s.groups), 0);
    each_weight(conv, ops_.block, [&](int64_t group, int64_t n, int64_t, int channel, int8_t w) {
      start_[group * padded + n * ops_.block + channel] -= conv.in_zero * w;
    });
    zeros_.assign(static_cast<size_t>(plan_.rows ? s.kernel_w * group_in(s) : plan_.chunk) + 4,
                  static_cast<uint8_t>(conv.in_zero));
    plan_.zeros = zeros_.data();
    plan_.start = start_.data();
    plan_.packed = packed_.data();
    plan_.output = lists_.output();
    const int64_t reach = s.kernel_h * s.kernel_w > 1 ? s.stride_h * s.stride_w : 1;
    const Int8Split split = split_work(s, form_.tile_pixels, ops_.block, plan_.k, static_cast<int64_t>(packed_.size()),
                                       group_in(s) * reach * form_.tile_pixels, threads);
    plan_.pixel_splits = split.pixels;
    plan_.channel_splits = split.channels;
    plan_.block_tiles = static_cast<int>(split.tiles);
    plan_.worker_bytes = align_up(form_.worker_bytes(plan_), 4096) + 256;
  }

  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_.size(); }
  void run(const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) const override {
    form_.run(plan_, in, residual, out, worker);
  }

 private:
  void pack(const Int8Conv& conv, int64_t blocks) {
    const int64_t block = ops_.block;
    packed_.assign(static_cast<size_t>(conv.shape.groups * blocks * plan_.k * block), 0);
    each_weight(conv, block, [&](int64_t group, int64_t n, int64_t k, int channel, int8_t w) {
      packed_[(((group * blocks + n) * plan_.k / 4 + k / 4) * block + channel) * 4 + k % 4] = w;
    });
  }

  const Int8Ops& ops_;
  const Int8FormOps& form_;
  Int8Lists lists_;
  Int8Plan plan_{};
  std::vector<int8_t> packed_;
  std::vector<int32_t> start_;
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
      {"int8_words", refuses_words, make_words},
      {"int8_dot", refuses_direct, make<Int8Form::dot>},
      {"int8_depthwise", refuses_depthwise, make_depthwise},
      {"int8_winograd", refuses_winograd8, make_winograd8},
  };
  return tactics;
}

}  // namespace tenon::cpu
