#include "backends/cpu/kernels/int8_words.h"

#include <vector>

#include "backends/cpu/kernels/int8_support.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kMostPanelK = 384;  // of 16 output channels: 12 KB of L1

class Int8WordsKernel final : public Int8Kernel {
 public:
  Int8WordsKernel(const Int8Conv& conv, Isa isa, int threads)
      : ops_(words_ops(isa)), lists_(conv, int8_ops(isa).block) {
    const ConvShape& s = conv.shape;
    const int64_t block = int8_ops(isa).block, blocks = ceil_div(group_out(s), block);
    plan_.shape = s;
    plan_.output = lists_.output();
    plan_.in_zero = conv.in_zero;
    plan_.k = align_up(group_in(s) * s.kernel_h * s.kernel_w, kWordsStep);
    plan_.k_block = align_up(ceil_div(plan_.k, ceil_div(plan_.k, kMostPanelK)), kWordsStep);
    packed_.assign(static_cast<size_t>(s.groups * blocks * block * plan_.k), 0);
    each_weight(conv, block, [&](int64_t group, int64_t n, int64_t k, int channel, int8_t w) {
      packed_[(((group * blocks + n) * plan_.k / 2 + k / 2) * block + channel) * 2 + k % 2] = w;
    });
    plan_.packed = packed_.data();
    const Int8Split split = split_work(s, ops_.tile_pixels, static_cast<int>(block), plan_.k,
                                       static_cast<int64_t>(packed_bytes()), plan_.k * ops_.tile_pixels * 2, threads);
    plan_.pixel_splits = split.pixels;
    plan_.channel_splits = split.channels;
    plan_.block_pixels = split.tiles * ops_.tile_pixels;
    plan_.worker_bytes = align_up(ops_.worker_bytes(plan_), 4096) + 256;
  }

  size_t workspace_bytes() const override { return plan_.worker_bytes * plan_.pixel_splits * plan_.channel_splits; }
  size_t packed_bytes() const override { return packed_.size() * sizeof(int16_t); }
  void run(const uint8_t* in, const uint8_t* residual, void* out, const Worker& worker) const override {
    ops_.run(plan_, in, residual, out, worker);
  }

 private:
  const WordsOps& ops_;
  Int8Lists lists_;
  WordsPlan plan_{};
  std::vector<int16_t> packed_;
};

}  // namespace

const WordsOps& words_ops(Isa isa) {
  switch (isa) {
    case Isa::avx512: return avx512::words_ops;
    case Isa::avx2: return avx2::words_ops;
    default: return portable::words_ops;
  }
}

const char* refuses_words(const Int8Conv& conv) { return conv.shape.in_nchw ? "reads NHWC only" : nullptr; }

std::unique_ptr<Int8Kernel> make_words(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8WordsKernel>(conv, isa, threads);
}

}  // namespace tenon::cpu
