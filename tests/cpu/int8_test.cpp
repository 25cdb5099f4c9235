// SPDX-License-Identifier: Apache-2.0
// Every integer tactic of every instruction set this machine has gives the bits of int8_int16 on the lowest set, for
// any number of workers and inside its buffers. What the lowest set gives is held to the reference in tests/ops.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/int8/conv_int8.h"

namespace tenon::cpu {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }
  bool once_in(int times) { return between(1, times) == 1; }

 private:
  std::mt19937 engine_;
};

struct Int8Case {
  Int8Conv conv{};
  std::vector<int16_t> weights;
  std::vector<float> multiplier, bias, residual_scale, inverse_scale, slopes;
  std::vector<uint8_t> in, residual;
  size_t out_bytes = 0;
};

int64_t room(int64_t batch, int64_t image, int64_t h, int64_t row, int64_t w, int64_t pixel, int64_t c) {
  return (batch - 1) * image + (h - 1) * row + (w - 1) * pixel + c;
}

/// A convolution of random sizes, half of them products of 1x1 over pixels as they lie.
ConvShape random_shape(Random& random) {
  ConvShape s{};
  const bool product = random.once_in(2), depthwise = !product && random.once_in(4);
  s.groups = random.once_in(5) ? random.between(2, 3) : 1;
  const int in = random.once_in(3) ? 16 * random.between(1, 12) : random.between(1, 40);
  const int out = random.once_in(2) ? 16 * random.between(1, 6) : random.between(1, 70);
  s.in_c = in * s.groups, s.out_c = out * s.groups;
  if (depthwise) s.groups = s.in_c = s.out_c = random.between(1, 140);
  s.batch = random.between(1, 2), s.in_h = random.between(1, 20);
  s.in_w = random.once_in(4) ? random.between(24, 90) : random.between(1, 24);
  s.kernel_h = s.kernel_w = s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = 1;
  int bottom = 0, right = 0;
  if (!product) {
    s.kernel_h = random.between(1, 5), s.kernel_w = random.between(1, 5);
    if (depthwise && !random.once_in(4)) s.kernel_h = s.kernel_w = 3;
    s.stride_h = random.once_in(2) ? random.between(1, 3) : 1;
    s.stride_w = random.once_in(2) ? random.between(1, 3) : 1;
    s.dilation_h = random.once_in(4) ? random.between(2, 3) : 1, s.dilation_w = random.once_in(4) ? 2 : 1;
    s.pad_top = random.between(0, 3), s.pad_left = random.between(0, 3);
    bottom = random.between(0, 3), right = random.between(0, 3);
  }
  const auto outputs = [](int64_t in_size, int pads, int64_t kernel, int stride, int dilation) -> int64_t {
    const int64_t free = in_size + pads - dilation * (kernel - 1) - 1;
    return free < 0 ? 0 : free / stride + 1;
  };
  s.out_h = outputs(s.in_h, s.pad_top + bottom, s.kernel_h, s.stride_h, s.dilation_h);
  s.out_w = outputs(s.in_w, s.pad_left + right, s.kernel_w, s.stride_w, s.dilation_w);
  const auto pixel = [&](int64_t channels) { return channels + (random.once_in(3) ? random.between(1, 20) : 0); };
  s.in_pixel = pixel(s.in_c), s.in_row = s.in_w * s.in_pixel, s.in_image = s.in_h * s.in_row;
  s.out_pixel = pixel(s.out_c), s.out_row = s.out_w * s.out_pixel, s.out_image = s.out_h * s.out_row;
  s.res_pixel = pixel(s.out_c), s.res_row = s.out_w * s.res_pixel, s.res_image = s.out_h * s.res_row;
  return s;
}

Int8Case random_case(Random& random) {
  Int8Case c;
  ConvShape& s = c.conv.shape;
  while (s.out_h == 0 || s.out_w == 0) s = random_shape(random);
  constexpr expr::Id activations[] = {expr::Id::Identity, expr::Id::Relu,    expr::Id::Clip,
                                      expr::Id::Silu,     expr::Id::Sigmoid, expr::Id::PRelu};
  c.conv.epilogue = {activations[random.between(0, 5)], -0.5f, 2.f, static_cast<Residual>(random.between(0, 2))};
  const bool same = random.once_in(2), steep = random.once_in(4);
  for (int64_t at = 0; at < s.out_c; ++at) {
    c.multiplier.push_back(static_cast<float>(random.between(1, 100)) * 1e-6f);
    c.bias.push_back(static_cast<float>(random.between(-100, 100)) * 0.01f);
    c.residual_scale.push_back(static_cast<float>(random.between(1, 5)) * 0.01f);
    c.slopes.push_back(static_cast<float>(random.between(-100, 200)) * (steep ? 0.05f : 0.01f));
    c.inverse_scale.push_back(same ? 20.f : static_cast<float>(random.between(10, 30)));
  }
  if (c.conv.epilogue.act == expr::Id::PRelu) c.conv.epilogue.slopes = c.slopes.data();
  const int most = random.once_in(2) ? 127 : 63;  // the smaller ones fit in pairs
  for (int64_t at = 0; at < s.out_c * (s.in_c / s.groups) * s.kernel_h * s.kernel_w; ++at)
    c.weights.push_back(static_cast<int16_t>(random.between(-most - 1, most)));
  c.in.resize(static_cast<size_t>(room(s.batch, s.in_image, s.in_h, s.in_row, s.in_w, s.in_pixel, s.in_c)));
  c.residual.resize(static_cast<size_t>(room(s.batch, s.res_image, s.out_h, s.res_row, s.out_w, s.res_pixel, s.out_c)));
  for (auto* bytes : {&c.in, &c.residual})
    for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random.between(0, 255));
  c.conv.weights = c.weights.data();
  c.conv.multiplier = c.multiplier.data();
  c.conv.bias = random.once_in(3) ? nullptr : c.bias.data();
  c.conv.in_zero = random.between(0, 255), c.conv.residual_zero = random.between(0, 255);
  c.conv.out_zero = random.between(0, 255);
  c.conv.residual_scale = c.conv.epilogue.residual == Residual::none ? nullptr : c.residual_scale.data();
  c.conv.sums = random.once_in(10);
  c.conv.inverse_scale = c.conv.sums || random.once_in(4) ? nullptr : c.inverse_scale.data();
  const int64_t outputs = room(s.batch, s.out_image, s.out_h, s.out_row, s.out_w, s.out_pixel, s.out_c);
  c.out_bytes = static_cast<size_t>(outputs) * (c.conv.inverse_scale ? 1 : 4);
  return c;
}

/// All bytes of the output; those between its elements are as they were.
std::vector<uint8_t> outputs_of(const Int8Tactic& tactic, const Int8Case& c, Isa isa, int threads) {
  const auto kernel = tactic.make(c.conv, isa, threads);
  // Workspaces come dirty from other layers.
  const size_t bytes = (kernel->workspace_bytes() + 63) / 64 * 64;
  const std::unique_ptr<std::byte, decltype(&std::free)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, bytes + 64)), &std::free);
  std::memset(workspace.get(), 0xee, bytes);
  std::vector<uint8_t> out(c.out_bytes, 0x5a);
  std::barrier<> barrier(threads);
  const auto body = [&](int id) {
    kernel->run(c.in.data(), c.conv.in_zero, c.conv.residual_scale ? c.residual.data() : nullptr, out.data(),
                {id, threads, [](void* thread_pool) { static_cast<std::barrier<>*>(thread_pool)->arrive_and_wait(); },
                 &barrier, workspace.get()});
  };
  std::vector<std::thread> others;
  for (int id = 1; id < threads; ++id) others.emplace_back(body, id);
  body(0);
  for (std::thread& other : others) other.join();
  return out;
}

const Int8Tactic& tactic_called(std::string_view name) {
  for (const Int8Tactic& tactic : int8_tactics())
    if (tactic.name == name) return tactic;
  throw std::logic_error("no such tactic");
}

bool runs_on(const Int8Tactic& tactic, Isa isa) {
  const std::string_view name = tactic.name;
  if (name == "int8_dot" || name == "int8_columns" || name == "int8_quads") return has_int8_dot(isa);
  return name != "int8_tiles" || isa == Isa::amx;
}

TEST(Int8, EveryTacticGivesTheSameBits) {
  Random random(5);
  for (int turn = 0; turn < 400; ++turn) {
    const Int8Case c = random_case(random);
    const ConvShape& s = c.conv.shape;
    const std::vector<uint8_t> expected = outputs_of(tactic_called("int8_int16"), c, Isa::portable, 1);
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx}) {
      if (isa > detect_isa()) continue;
      for (const Int8Tactic& tactic : int8_tactics()) {
        if (!runs_on(tactic, isa) || tactic.refuses(c.conv)) continue;
        for (int threads : {1, 2, 3})
          ASSERT_EQ(outputs_of(tactic, c, isa, threads), expected)
              << "turn " << turn << ": " << tactic.name << " on " << isa_name(isa) << ", " << threads << " threads, in "
              << s.in_h << "x" << s.in_w << "x" << s.in_c << ", out " << s.out_h << "x" << s.out_w << "x" << s.out_c
              << ", kernel " << s.kernel_h << "x" << s.kernel_w << ", groups " << s.groups;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
