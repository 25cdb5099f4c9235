// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/conv.h"
#include "ops/expression.h"

/// What tests of convolution tactics share: cases, and their check against a reference in double precision.
namespace tenon::cpu::conv_check {

constexpr float kCanary = -12345.5f;

struct Case {
  ConvShape shape{};
  Epilogue epilogue{};
  bool bias = true;
};

struct Padding {
  int top = 0, left = 0, bottom = 0, right = 0;
};

// Pitches above the channel count put the tensors inside wider buffers.
inline Case make_case(int64_t batch, int64_t h, int64_t w, int64_t in_c, int64_t out_c, int kernel_h, int kernel_w,
                      int stride, Padding pad, int dilation = 1, int groups = 1, int in_extra = 0, int out_extra = 0) {
  Case c;
  ConvShape& s = c.shape;
  s.batch = batch, s.in_h = h, s.in_w = w, s.in_c = in_c, s.out_c = out_c;
  s.kernel_h = kernel_h, s.kernel_w = kernel_w, s.stride_h = s.stride_w = stride;
  s.dilation_h = s.dilation_w = dilation, s.pad_top = pad.top, s.pad_left = pad.left, s.groups = groups;
  s.out_h = (h + pad.top + pad.bottom - dilation * (kernel_h - 1) - 1) / stride + 1;
  s.out_w = (w + pad.left + pad.right - dilation * (kernel_w - 1) - 1) / stride + 1;
  s.in_pixel = in_c + in_extra, s.in_row = w * s.in_pixel, s.in_image = h * s.in_row;
  s.out_pixel = out_c + out_extra, s.out_row = s.out_w * s.out_pixel, s.out_image = s.out_h * s.out_row;
  s.res_pixel = out_c + out_extra / 2, s.res_row = s.out_w * s.res_pixel, s.res_image = s.out_h * s.res_row;
  return c;
}

inline Case square(int64_t size, int64_t in_c, int64_t out_c, int kernel, int stride, int pad) {
  return make_case(1, size, size, in_c, out_c, kernel, kernel, stride, {pad, pad, pad, pad});
}

inline double activate(double x, const Epilogue& e, int64_t channel) {
  switch (e.act) {
    case expr::Id::Identity: return x;
    case expr::Id::Relu: return std::max(x, 0.0);
    case expr::Id::Clip: return std::min<double>(std::max<double>(x, e.alpha), e.beta);
    case expr::Id::Silu: return x / (1 + std::exp(-x));
    case expr::Id::Sigmoid: return 1 / (1 + std::exp(-x));
    case expr::Id::HardSwish: return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case expr::Id::HardSigmoid: return std::clamp<double>(e.alpha * x + e.beta, 0, 1);
    case expr::Id::LeakyRelu: return x < 0 ? e.alpha * x : x;
    case expr::Id::Tanh: return std::tanh(x);
    case expr::Id::Gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case expr::Id::GeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case expr::Id::Mish: return x * std::tanh(std::log1p(std::exp(x)));
    case expr::Id::Elu: return x < 0 ? e.alpha * std::expm1(x) : x;
    case expr::Id::Celu: return x < 0 ? e.alpha * std::expm1(x / e.alpha) : x;
    case expr::Id::Selu: return e.beta * (x < 0 ? e.alpha * std::expm1(x) : x);
    case expr::Id::Softsign: return x / (1 + std::abs(x));
    case expr::Id::ThresholdedRelu: return x > e.alpha ? x : 0;
    case expr::Id::FakeQuantize16:
      return std::clamp<double>(x, double{e.beta} * e.alpha, (double{e.beta} + 65535) * e.alpha);
    default:
      return ops::expression(e.act).apply(static_cast<float>(x), e.slopes ? e.slopes[channel] : 0, e.alpha, e.beta);
  }
}

struct Data {
  std::vector<float> in, weights, bias, residual;
};

// Depthwise, a group has one channel of each slice.
inline int64_t place_of(const ConvShape& s, int64_t channel) {
  if (s.slices > 1 && s.groups > 1) return channel % s.slices * s.in_slice + channel / s.slices;
  const int64_t of_slice = s.in_c / s.slices;
  return channel / of_slice * s.in_slice + channel % of_slice;
}

// The buffers end with the last used float, so that a sanitizer sees any read behind it.
inline Data make_data(const Case& c) {
  const ConvShape& s = c.shape;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto fill = [&](size_t count) {
    std::vector<float> v(count);
    for (float& x : v) x = uniform(random);
    return v;
  };
  Data d;
  const int64_t nhwc =
      (s.batch - 1) * s.in_image + (s.in_h - 1) * s.in_row + (s.in_w - 1) * s.in_pixel + place_of(s, s.in_c - 1) + 1;
  d.in = fill(s.in_nchw ? s.batch * s.in_c * s.in_h * s.in_w : nhwc);
  d.weights = fill(s.out_c * (s.in_c / s.groups) * s.kernel_h * s.kernel_w);
  const float scale = 2 / std::sqrt(static_cast<float>(d.weights.size() / s.out_c));
  for (float& w : d.weights) w *= scale;
  d.bias = fill(s.out_c);
  d.residual = fill((s.batch - 1) * s.res_image + (s.out_h - 1) * s.res_row + (s.out_w - 1) * s.res_pixel + s.out_c);
  return d;
}

inline size_t out_floats(const ConvShape& s) {
  return (s.batch - 1) * s.out_image + (s.out_h - 1) * s.out_row + (s.out_w - 1) * s.out_pixel + s.out_c;
}

inline std::vector<double> reference(const Case& c, const Data& d) {
  const ConvShape& s = c.shape;
  const int64_t gi = s.in_c / s.groups, go = s.out_c / s.groups;
  std::vector<double> out(out_floats(s), kCanary);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t oy = 0; oy < s.out_h; ++oy)
      for (int64_t ox = 0; ox < s.out_w; ++ox)
        for (int64_t n = 0; n < s.out_c; ++n) {
          double sum = c.bias ? d.bias[n] : 0;
          for (int64_t i = 0; i < gi; ++i)
            for (int ky = 0; ky < s.kernel_h; ++ky)
              for (int kx = 0; kx < s.kernel_w; ++kx) {
                const int64_t y = oy * s.stride_h - s.pad_top + ky * s.dilation_h;
                const int64_t x = ox * s.stride_w - s.pad_left + kx * s.dilation_w;
                if (y < 0 || y >= s.in_h || x < 0 || x >= s.in_w) continue;
                const int64_t channel = n / go * gi + i;
                const float v = s.in_nchw ? d.in[((b * s.in_c + channel) * s.in_h + y) * s.in_w + x]
                                          : d.in[b * s.in_image + y * s.in_row + x * s.in_pixel + place_of(s, channel)];
                sum += double{v} * d.weights[((n * gi + i) * s.kernel_h + ky) * s.kernel_w + kx];
              }
          const double r = d.residual[b * s.res_image + oy * s.res_row + ox * s.res_pixel + n];
          if (c.epilogue.residual == Residual::before) sum += r;
          sum = activate(sum, c.epilogue, n);
          if (c.epilogue.residual == Residual::after) sum += r;
          out[b * s.out_image + oy * s.out_row + ox * s.out_pixel + n] = sum;
        }
  return out;
}

inline std::vector<float> run_kernel(const ConvTactic& tactic, const Case& c, const Data& d, int threads) {
  std::vector<float> packed(tactic.packed_floats(c.shape));
  tactic.pack(c.shape, d.weights.data(), packed.data());
  const auto kernel = tactic.make(c.shape, c.epilogue, packed.data(), c.bias ? d.bias.data() : nullptr, threads);
  // Workspaces come dirty from other layers.
  const size_t bytes = (kernel->workspace_bytes() + 63) / 64 * 64;
  std::unique_ptr<std::byte, decltype(&std::free)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(64, bytes + 64)), &std::free);
  std::memset(workspace.get(), 0xff, bytes);
  std::vector<float> out(out_floats(c.shape), kCanary);
  std::barrier<> barrier(threads);
  const auto body = [&](int id) {
    const Worker worker{id, threads,
                        [](void* thread_pool) { static_cast<std::barrier<>*>(thread_pool)->arrive_and_wait(); },
                        &barrier, workspace.get()};
    const float* residual = c.epilogue.residual == Residual::none ? nullptr : d.residual.data();
    kernel->run(d.in.data(), residual, out.data(), worker);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(body, i);
  body(0);
  for (std::thread& t : others) t.join();
  return out;
}

inline std::string describe(const Case& c, const char* tactic, Isa isa) {
  const ConvShape& s = c.shape;
  return std::string(isa_name(isa)) + " " + tactic + " batch " + std::to_string(s.batch) + " in " +
         std::to_string(s.in_h) + "x" + std::to_string(s.in_w) + "x" + std::to_string(s.in_c) + " out " +
         std::to_string(s.out_h) + "x" + std::to_string(s.out_w) + "x" + std::to_string(s.out_c) + " kernel " +
         std::to_string(s.kernel_h) + "x" + std::to_string(s.kernel_w) + " stride " + std::to_string(s.stride_h) +
         " dilation " + std::to_string(s.dilation_h) + " groups " + std::to_string(s.groups) + " pad " +
         std::to_string(s.pad_top) + "," + std::to_string(s.pad_left) + " pitches " + std::to_string(s.in_pixel) + " " +
         std::to_string(s.out_pixel) + " act " + std::to_string(static_cast<int>(c.epilogue.act)) + " residual " +
         std::to_string(static_cast<int>(c.epilogue.residual));
}

// Worst error relative to the root mean square of the output.
inline double limit_of(const std::string& tactic) {
  if (tactic.starts_with("bf16_") || tactic == "gemv_bf16") return 3e-2;
  if (tactic == "gemv_f16") return 4e-3;
  return tactic.starts_with("winograd4") || tactic == "winograd_5x5" ? 1e-4 : 2e-5;  // tiles of six
}

inline bool takes_slices(const std::string& tactic, bool depthwise) {
  if (depthwise) return tactic == "depthwise_rows";
  return tactic == "direct" || tactic == "winograd4" || tactic == "winograd2" || tactic == "winograd_5x5";
}

inline int check(const Case& c) {
  const Data d = make_data(c);
  const std::vector<double> expected = reference(c, d);
  double square = 0;
  int64_t count = 0;
  for (double x : expected) {
    if (x == kCanary) continue;
    square += x * x;
    ++count;
  }
  const double rms = std::sqrt(square / count) + 1e-3;
  int ran = 0;
  std::map<std::string, std::vector<float>> of_fused;
  for (Isa isa : {Isa::portable, Isa::fused, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa > std::max(detect_isa(), Isa::fused)) continue;
    for (const ConvTactic& tactic : conv_tactics(isa)) {
      if (tactic.refuses(c.shape, c.epilogue) || (c.shape.slices > 1 && !takes_slices(tactic.name, c.shape.groups > 1)))
        continue;
      ++ran;
      const std::vector<float> one = run_kernel(tactic, c, d, 1);
      // Wider vectors give the same bits; without fused steps there are other roundings.
      if (isa == Isa::fused) of_fused[tactic.name] = one;
      if (const auto same = of_fused.find(tactic.name); isa > Isa::fused && same != of_fused.end()) {
        EXPECT_EQ(std::memcmp(one.data(), same->second.data(), one.size() * sizeof(float)), 0)
            << describe(c, tactic.name, isa) << " differs from fused";
      }
      double worst = 0;
      for (size_t i = 0; i < one.size(); ++i) {
        if (expected[i] == kCanary && one[i] != kCanary) {
          ADD_FAILURE() << describe(c, tactic.name, isa) << " writes outside its output at " << i;
          break;
        }
        const double error = std::abs(one[i] - expected[i]);
        worst = error <= worst ? worst : std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
      }
      EXPECT_LE(worst / rms, limit_of(tactic.name)) << describe(c, tactic.name, isa);
      for (int threads : {2, 3}) {
        const std::vector<float> many = run_kernel(tactic, c, d, threads);
        EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0)
            << describe(c, tactic.name, isa) << " threads " << threads;
      }
    }
  }
  return ran;
}

inline Case frames_case(Case c, int64_t count, int64_t step) {
  ConvShape& s = c.shape;
  s.slices = count, s.in_slice = step * s.in_image, s.in_c *= count;
  return c;
}

}  // namespace tenon::cpu::conv_check
