// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <vector>

#include "backends/cpu/kernels/int8/int8_support.h"
#include "backends/cpu/kernels/int8_packing.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kTransformedBytes = 200 << 10;  // transformed tiles of one block, kept in L2 over all output channels

class Int8WinogradKernel final : public Int8Kernel {
 public:
  Int8WinogradKernel(const Int8Conv& conv, Isa isa, int threads)
      : ops_(int8_ops(isa)),
        lists_(std::make_shared<Int8Lists>(conv, ops_.block)),
        zeros_(std::make_shared<std::vector<uint8_t>>(conv.shape.in_c, static_cast<uint8_t>(conv.in_zero))) {
    const int64_t block = ops_.block;
    plan_.output = lists_->output();
    plan_.zeros = zeros_->data();
    plan_.in_zero = conv.in_zero;
    plan_.channels = align_up(conv.shape.in_c, block);  // a block's sums and a vector of int16 are as many
    plan_.blocks = ceil_div(conv.shape.out_c, block);
    pack(conv, block);
    fit(conv.shape, threads);
  }

  std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const override {
    auto other = std::make_unique<Int8WinogradKernel>(*this);
    other->fit(shape, threads);
    return other;
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(plan_.v_buffers) * plan_.v_bytes + static_cast<size_t>(threads_) * plan_.m_bytes;
  }
  size_t packed_bytes() const override { return packed_->bytes.size(); }
  void run(const uint8_t* in, int32_t, const uint8_t* residual, void* out, const Worker& worker) const override {
    ops_.winograd(plan_, in, residual, out, worker);
  }

 private:
  void pack(const Int8Conv& conv, int64_t block) {
    constexpr int g[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
    const ConvShape& s = conv.shape;
    const auto count = static_cast<size_t>(plan_.blocks * kWinogradPoints * plan_.channels * block);
    static const char tactic = 0;
    packed_ = packed_int8(conv, &tactic, count * sizeof(int16_t), 0, {block}, [&](std::byte* bytes, int32_t*) {
      auto* packed = reinterpret_cast<int16_t*>(bytes);
      for (int64_t n = 0; n < s.out_c; ++n)
        for (int64_t c = 0; c < s.in_c; ++c) {
          const int16_t* w = conv.weights + (n * s.in_c + c) * 9;
          for (int p = 0; p < kWinogradPoints; ++p) {
            int sum = 0;
            for (int y = 0; y < 3; ++y)
              for (int x = 0; x < 3; ++x) sum += g[p / 4][y] * g[p % 4][x] * w[y * 3 + x];
            const int64_t panel = (n / block * kWinogradPoints + p) * plan_.channels * block;
            packed[panel + (c / 2 * block + n % block) * 2 + c % 2] = static_cast<int16_t>(sum);
          }
        }
    });
    plan_.packed = packed_->bytes.data();
  }

  void fit(const ConvShape& s, int threads) {
    const int64_t block = ops_.block;
    plan_.shape = s, threads_ = threads;
    plan_.tiles_h = ceil_div(s.out_h, 2);
    plan_.tiles_w = ceil_div(s.out_w, 2);
    plan_.tiles = s.batch * plan_.tiles_h * plan_.tiles_w;
    plan_.by_channels = plan_.blocks >= threads_ && s.out_c > s.batch * s.out_h * s.out_w;
    const int64_t pixels = ops_.tile_pixels;
    const int64_t target = std::max<int64_t>(2, kTransformedBytes / (kWinogradPoints * 2 * plan_.channels * pixels));
    plan_.block_tiles = plan_.by_channels ? plan_.tiles : std::min(ceil_div(plan_.tiles, threads_), target * pixels);
    // A cache line keeps the points from meeting in one cache set.
    plan_.v_point = plan_.block_tiles * plan_.channels + 32;
    plan_.m_point = plan_.block_tiles * block + 16;
    plan_.v_bytes = set_apart(kWinogradPoints * plan_.v_point * 2);
    plan_.m_bytes = set_apart(kWinogradPoints * plan_.m_point * 4);
    plan_.v_buffers = plan_.by_channels ? 1 : threads_;
  }

  const Int8Ops& ops_;
  std::shared_ptr<const Int8Lists> lists_;
  int threads_ = 1;
  std::shared_ptr<const std::vector<uint8_t>> zeros_;
  Int8WinogradPlan plan_{};
  std::shared_ptr<const Int8Packed> packed_;
};

}  // namespace

Reason refuses_winograd8(const Int8Conv& conv) {
  const ConvShape& s = conv.shape;
  if (s.in_nchw) return {Reason::layout, "NHWC"};
  if (s.kernel_h != 3 || s.kernel_w != 3) return {Reason::window, "3x3"};
  if (s.stride_h != 1 || s.stride_w != 1) return {Reason::strides, "1"};
  if (s.dilation_h != 1 || s.dilation_w != 1) return Reason::dilated;
  if (s.groups != 1) return Reason::grouped;
  if (conv.dynamic) return {Reason::not_constant, "its zero point"};
  // Four times the sum of an output has to fit 32 bits; what lies between may wrap.
  for (int64_t n = 0; n < s.out_c; ++n) {
    int64_t sum = 0;
    for (int64_t at = 0; at < s.in_c * 9; ++at) sum += std::abs(conv.weights[n * s.in_c * 9 + at]);
    if (sum > INT32_MAX / (4 * 255)) return {Reason::overflow, "four times its sums", 32};
  }
  return {};
}

std::unique_ptr<Int8Kernel> make_winograd8(const Int8Conv& conv, Isa isa, int threads) {
  return std::make_unique<Int8WinogradKernel>(conv, isa, threads);
}

}  // namespace tenon::cpu
