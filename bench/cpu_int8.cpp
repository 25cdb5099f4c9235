// SPDX-License-Identifier: Apache-2.0
// Times the integer convolution tactics on layers of known nets, each on one core with its data in the caches, or
// (cold) its weights in memory: many copies of a layer run in turn. Usage: cpu_int8 [runs=25] [tactic|all] [cold]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/int8/conv_int8.h"

namespace {

using namespace tenon::cpu;

struct Layer {
  int64_t side, in, out;
  int kernel, stride;
  bool residual = false;
  int64_t frames = 1;  // that lie apart
};

constexpr Layer layers[] = {{640, 3, 16, 3, 2},           {224, 3, 64, 7, 2},           {320, 16, 32, 3, 2},
                            {160, 16, 16, 3, 1},          {80, 32, 32, 3, 1},           {80, 64, 80, 3, 1},
                            {80, 80, 80, 3, 1},           {56, 64, 64, 3, 1},           {28, 128, 128, 3, 1},
                            {14, 256, 256, 3, 1},         {7, 512, 512, 3, 1},          {160, 48, 32, 1, 1},
                            {55, 128, 16, 1, 1},          {56, 64, 256, 1, 1},          {14, 1024, 256, 1, 1},
                            {7, 512, 2048, 1, 1},         {56, 256, 512, 1, 2},         {28, 512, 1024, 1, 2},
                            {56, 64, 256, 1, 1, true},    {14, 256, 1024, 1, 1, true},  {48, 48, 16, 3, 1, false, 3},
                            {48, 96, 16, 3, 1, false, 3}, {24, 96, 32, 3, 1, false, 3}, {48, 3, 16, 3, 1}};

ConvShape shape_of(const Layer& layer) {
  ConvShape s{};
  s.batch = s.groups = s.dilation_h = s.dilation_w = 1;
  s.in_h = s.in_w = layer.side, s.in_c = layer.in, s.out_c = layer.out;
  s.kernel_h = s.kernel_w = layer.kernel, s.stride_h = s.stride_w = layer.stride;
  s.pad_top = s.pad_left = layer.kernel / 2;
  s.out_h = s.out_w = (layer.side + 2 * (layer.kernel / 2) - layer.kernel) / layer.stride + 1;
  s.slices = layer.frames, s.in_pixel = s.in_c / s.slices, s.in_row = s.in_w * s.in_pixel;
  s.in_slice = s.in_h * s.in_row, s.in_image = s.slices * s.in_slice;
  s.out_pixel = s.out_c, s.out_row = s.out_w * s.out_pixel, s.out_image = s.out_h * s.out_row;
  s.res_pixel = s.out_pixel, s.res_row = s.out_row, s.res_image = s.out_image;
  return s;
}

using Kernels = std::vector<std::unique_ptr<Int8Kernel>>;

/// The least of `runs` runs of all copies, in microseconds for one.
double time(const Kernels& kernels, const ConvShape& s, int runs) {
  std::vector<uint8_t> in(static_cast<size_t>(s.in_image)), out(static_cast<size_t>(s.out_image)), other(out.size());
  std::mt19937 random(1);
  for (std::vector<uint8_t>* values : {&in, &other})
    for (uint8_t& value : *values) value = static_cast<uint8_t>(random());
  std::vector<std::byte> space(kernels[0]->workspace_bytes() + 64);
  tenon::Worker worker{};
  worker.count = 1;
  worker.workspace = space.data() + (64 - reinterpret_cast<uintptr_t>(space.data()) % 64) % 64;
  double least = 1e30;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& kernel : kernels) kernel->run(in.data(), 128, other.data(), out.data(), worker);
    const auto took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, std::chrono::duration<double, std::micro>(took).count());
  }
  return least / static_cast<double>(kernels.size());
}

void bench(const Layer& layer, const Int8Tactic& tactic, int runs, bool cold) {
  constexpr int64_t bytes = 24 << 20, most_copies = 200;
  Int8Conv conv{};
  conv.shape = shape_of(layer);
  const int64_t count = layer.out * layer.in * layer.kernel * layer.kernel;
  std::vector<int16_t> weights(static_cast<size_t>(count));
  std::mt19937 random(2);
  for (int16_t& weight : weights) weight = static_cast<int16_t>(random() % 129) - 64;
  const auto channels = static_cast<size_t>(layer.out);
  const std::vector<float> multiplier(channels, 1e-3f), inverse(channels, 20), other(channels, 0.05f);
  conv.weights = weights.data(), conv.multiplier = multiplier.data(), conv.inverse_scale = inverse.data();
  conv.in_zero = 128, conv.out_zero = 0;  // as behind a ReLU
  conv.epilogue.act = tenon::expr::Id::Relu;
  if (layer.residual)
    conv.epilogue.residual = Residual::before, conv.residual_scale = other.data(), conv.residual_zero = 0;
  if (tactic.refuses(conv)) return;
  Kernels kernels;
  for (int64_t copy = 0; copy < (cold ? std::clamp<int64_t>(bytes / count, 1, most_copies) : 1); ++copy)
    kernels.push_back(tactic.make(conv, active_isa(), 1));
  const double us = time(kernels, conv.shape, runs);
  const double products = static_cast<double>(count) * static_cast<double>(conv.shape.out_h * conv.shape.out_w);
  std::printf("%4ld x %-4ld %4ld > %-4ld %dx%d/%d%s  %-14s %9.1f us %7.1f e9 products/s\n", layer.side, layer.side,
              layer.in, layer.out, layer.kernel, layer.kernel, layer.stride, layer.residual ? " + residual" : "",
              tactic.name, us, products / us / 1e3);
}

bool can_run(const char* tactic) {
  const bool dot = !std::strcmp(tactic, "int8_dot") || !std::strcmp(tactic, "int8_columns");
  if (dot) return has_int8_dot(active_isa());
  return std::strcmp(tactic, "int8_tiles") != 0 || active_isa() == Isa::amx;
}

}  // namespace

int main(int count, char** words) {
  const int runs = count > 1 ? std::max(1, std::atoi(words[1])) : 25;
  const char* const only = count > 2 ? words[2] : "all";
  const bool cold = count > 3 && !std::strcmp(words[3], "cold");
  for (const Layer& layer : layers)
    for (const Int8Tactic& tactic : int8_tactics())
      if (can_run(tactic.name) && (!std::strcmp(only, "all") || !std::strcmp(only, tactic.name)))
        bench(layer, tactic, runs, cold);
}
