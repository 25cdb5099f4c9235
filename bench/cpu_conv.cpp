// SPDX-License-Identifier: Apache-2.0
// Times convolution tactics on layers of known nets, with an FMA loop in the same rounds as the yardstick.
// Usage: cpu_conv [threads=2] [rounds=15] [filter]
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/conv.h"

namespace {

using namespace tenon::cpu;
namespace expr = tenon::expr;

// Other processes may hold the cores: give way after a while.
class Spinner {
 public:
  void pause() {
    _mm_pause();
    if (++count_ % 4096 == 0) std::this_thread::yield();
  }

 private:
  unsigned count_ = 0;
};

class SpinningThreadPool {
 public:
  explicit SpinningThreadPool(int count) : count_(count) {
    _mm_setcsr(_mm_getcsr() | 0x8040);
    for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~SpinningThreadPool() {
    stop_ = true;
    ++epoch_;
    for (std::thread& t : threads_) t.join();
  }
  template <class F>
  void run(const F& f) {
    call_ = [](const void* context, int id) { (*static_cast<const F*>(context))(id); };
    context_ = &f;
    left_ = count_ - 1;
    ++epoch_;
    f(0);
    for (Spinner spin; left_.load();) spin.pause();
  }
  static void barrier(void* thread_pool) {
    auto* t = static_cast<SpinningThreadPool*>(thread_pool);
    const unsigned phase = t->phase_.load();
    if (t->arrived_.fetch_add(1) == t->count_ - 1) {
      t->arrived_ = 0;
      ++t->phase_;
    } else {
      for (Spinner spin; t->phase_.load() == phase;) spin.pause();
    }
  }

 private:
  void serve(int id) {
    _mm_setcsr(_mm_getcsr() | 0x8040);
    for (unsigned seen = 0;;) {
      for (Spinner spin; epoch_.load() == seen;) spin.pause();
      seen = epoch_.load();
      if (stop_) return;
      call_(context_, id);
      --left_;
    }
  }
  int count_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> epoch_{0}, phase_{0};
  std::atomic<int> left_{0}, arrived_{0};
  void (*call_)(const void*, int) = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> stop_{false};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int kFmaSteps = 20000;

__attribute__((target("avx2,fma"), noinline)) float fma_loop_256() {
  __m256 s[12], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) s[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int k = 0; k < kFmaSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) s[i] = _mm256_fmadd_ps(s[i], x, y);
  }
  __m256 sum = s[0];
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum = _mm256_add_ps(sum, s[i]);
  return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"), noinline)) float fma_loop_512() {
  __m512 s[12], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) s[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int k = 0; k < kFmaSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) s[i] = _mm512_fmadd_ps(s[i], x, y);
  }
  __m512 sum = s[0];
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum = _mm512_add_ps(sum, s[i]);
  return _mm_cvtss_f32(_mm512_castps512_ps128(sum));
}

volatile float sink;

// Seconds and floating-point operations of one pass of the yardstick on all workers.
double peak_gflops(SpinningThreadPool& thread_pool, int threads, Isa isa) {
  const double begin = now();
  thread_pool.run([&](int) { sink = isa == Isa::avx512 ? fma_loop_512() : fma_loop_256(); });
  const double flop = 2.0 * 12 * (isa == Isa::avx512 ? 16 : 8) * kFmaSteps * threads;
  return flop / (now() - begin) * 1e-9;
}

struct Layer {
  const char* net;
  int count, size, in_c, out_c, kernel, stride;
  expr::Id act;
  bool residual;
  int groups;
};

constexpr auto relu = expr::Id::Relu, none = expr::Id::Identity, silu = expr::Id::Silu, clip = expr::Id::Clip;

const Layer kLayers[] = {
    {"resnet", 1, 224, 3, 64, 7, 2, relu, false, 1},        {"resnet", 1, 56, 64, 64, 1, 1, relu, false, 1},
    {"resnet", 2, 56, 256, 64, 1, 1, relu, false, 1},       {"resnet", 3, 56, 64, 64, 3, 1, relu, false, 1},
    {"resnet", 3, 56, 64, 256, 1, 1, relu, true, 1},        {"resnet", 1, 56, 64, 256, 1, 1, none, false, 1},
    {"resnet", 1, 56, 256, 128, 1, 1, relu, false, 1},      {"resnet", 1, 56, 128, 128, 3, 2, relu, false, 1},
    {"resnet", 4, 28, 128, 512, 1, 1, relu, true, 1},       {"resnet", 1, 56, 256, 512, 1, 2, none, false, 1},
    {"resnet", 3, 28, 512, 128, 1, 1, relu, false, 1},      {"resnet", 3, 28, 128, 128, 3, 1, relu, false, 1},
    {"resnet", 1, 28, 512, 256, 1, 1, relu, false, 1},      {"resnet", 1, 28, 256, 256, 3, 2, relu, false, 1},
    {"resnet", 6, 14, 256, 1024, 1, 1, relu, true, 1},      {"resnet", 1, 28, 512, 1024, 1, 2, none, false, 1},
    {"resnet", 5, 14, 1024, 256, 1, 1, relu, false, 1},     {"resnet", 5, 14, 256, 256, 3, 1, relu, false, 1},
    {"resnet", 1, 14, 1024, 512, 1, 1, relu, false, 1},     {"resnet", 1, 14, 512, 512, 3, 2, relu, false, 1},
    {"resnet", 3, 7, 512, 2048, 1, 1, relu, true, 1},       {"resnet", 1, 14, 1024, 2048, 1, 2, none, false, 1},
    {"resnet", 2, 7, 2048, 512, 1, 1, relu, false, 1},      {"resnet", 2, 7, 512, 512, 3, 1, relu, false, 1},
    {"resnet", 1, 1, 2048, 1000, 1, 1, none, false, 1},

    {"yolov8n", 1, 640, 3, 16, 3, 2, silu, false, 1},       {"yolov8n", 1, 320, 16, 32, 3, 2, silu, false, 1},
    {"yolov8n", 1, 160, 32, 32, 1, 1, silu, false, 1},      {"yolov8n", 2, 160, 16, 16, 3, 1, silu, false, 1},
    {"yolov8n", 1, 160, 48, 32, 1, 1, silu, false, 1},      {"yolov8n", 1, 160, 32, 64, 3, 2, silu, false, 1},
    {"yolov8n", 1, 80, 64, 64, 1, 1, silu, false, 1},       {"yolov8n", 6, 80, 32, 32, 3, 1, silu, false, 1},
    {"yolov8n", 1, 80, 128, 64, 1, 1, silu, false, 1},      {"yolov8n", 1, 80, 192, 64, 1, 1, silu, false, 1},
    {"yolov8n", 1, 80, 96, 64, 1, 1, silu, false, 1},       {"yolov8n", 1, 80, 64, 128, 3, 2, silu, false, 1},
    {"yolov8n", 2, 40, 128, 128, 1, 1, silu, false, 1},     {"yolov8n", 8, 40, 64, 64, 3, 1, silu, false, 1},
    {"yolov8n", 2, 40, 256, 128, 1, 1, silu, false, 1},     {"yolov8n", 2, 40, 192, 128, 1, 1, silu, false, 1},
    {"yolov8n", 1, 40, 384, 128, 1, 1, silu, false, 1},     {"yolov8n", 1, 40, 128, 256, 3, 2, silu, false, 1},
    {"yolov8n", 1, 40, 128, 128, 3, 2, silu, false, 1},     {"yolov8n", 1, 80, 64, 64, 3, 2, silu, false, 1},
    {"yolov8n", 2, 20, 256, 256, 1, 1, silu, false, 1},     {"yolov8n", 4, 20, 128, 128, 3, 1, silu, false, 1},
    {"yolov8n", 3, 20, 384, 256, 1, 1, silu, false, 1},     {"yolov8n", 1, 20, 512, 256, 1, 1, silu, false, 1},
    {"yolov8n", 3, 80, 64, 64, 3, 1, silu, false, 1},       {"yolov8n", 1, 80, 64, 80, 3, 1, silu, false, 1},
    {"yolov8n", 1, 80, 80, 80, 3, 1, silu, false, 1},       {"yolov8n", 1, 40, 128, 64, 3, 1, silu, false, 1},
    {"yolov8n", 1, 40, 128, 80, 3, 1, silu, false, 1},      {"yolov8n", 1, 40, 80, 80, 3, 1, silu, false, 1},
    {"yolov8n", 1, 20, 256, 64, 3, 1, silu, false, 1},      {"yolov8n", 1, 20, 64, 64, 3, 1, silu, false, 1},
    {"yolov8n", 1, 20, 256, 80, 3, 1, silu, false, 1},      {"yolov8n", 1, 20, 80, 80, 3, 1, silu, false, 1},
    {"yolov8n", 1, 80, 64, 64, 1, 1, none, false, 1},       {"yolov8n", 1, 80, 80, 80, 1, 1, none, false, 1},

    {"mobilenet", 1, 224, 3, 32, 3, 2, clip, false, 1},     {"mobilenet", 1, 112, 32, 32, 3, 1, clip, false, 32},
    {"mobilenet", 1, 112, 32, 16, 1, 1, none, false, 1},    {"mobilenet", 1, 112, 16, 96, 1, 1, clip, false, 1},
    {"mobilenet", 1, 112, 96, 96, 3, 2, clip, false, 96},   {"mobilenet", 1, 56, 96, 24, 1, 1, none, false, 1},
    {"mobilenet", 2, 56, 24, 144, 1, 1, clip, false, 1},    {"mobilenet", 1, 56, 144, 144, 3, 1, clip, false, 144},
    {"mobilenet", 1, 56, 144, 24, 1, 1, none, true, 1},     {"mobilenet", 1, 56, 144, 144, 3, 2, clip, false, 144},
    {"mobilenet", 3, 28, 32, 192, 1, 1, clip, false, 1},    {"mobilenet", 2, 28, 192, 192, 3, 1, clip, false, 192},
    {"mobilenet", 2, 28, 192, 32, 1, 1, none, true, 1},     {"mobilenet", 4, 14, 384, 384, 3, 1, clip, false, 384},
    {"mobilenet", 4, 14, 64, 384, 1, 1, clip, false, 1},    {"mobilenet", 3, 14, 384, 64, 1, 1, none, true, 1},
    {"mobilenet", 3, 14, 96, 576, 1, 1, clip, false, 1},    {"mobilenet", 2, 14, 576, 576, 3, 1, clip, false, 576},
    {"mobilenet", 2, 14, 576, 96, 1, 1, none, true, 1},     {"mobilenet", 3, 7, 160, 960, 1, 1, clip, false, 1},
    {"mobilenet", 3, 7, 960, 960, 3, 1, clip, false, 960},  {"mobilenet", 2, 7, 960, 160, 1, 1, none, true, 1},
    {"mobilenet", 1, 7, 320, 1280, 1, 1, clip, false, 1},

    {"depthwise", 1, 32, 768, 768, 7, 1, relu, false, 768}, {"depthwise", 1, 32, 768, 768, 9, 1, relu, false, 768},
    {"depthwise", 1, 56, 96, 96, 7, 1, none, false, 96},    {"depthwise", 1, 28, 192, 192, 7, 1, none, false, 192},
    {"depthwise", 1, 14, 384, 384, 7, 1, none, false, 384}, {"depthwise", 1, 7, 768, 768, 7, 1, none, false, 768},
    {"depthwise", 1, 28, 240, 240, 5, 1, silu, false, 240}, {"depthwise", 1, 56, 144, 144, 5, 2, silu, false, 144},
    {"depthwise", 1, 14, 672, 672, 5, 1, silu, false, 672}, {"depthwise", 1, 7, 1152, 1152, 5, 1, silu, false, 1152},
    {"depthwise", 1, 56, 64, 64, 13, 1, relu, false, 64},   {"depthwise", 1, 14, 512, 512, 31, 1, relu, false, 512},
};

float* allocate(size_t floats) {
  auto* p = static_cast<float*>(std::aligned_alloc(4096, (floats * 4 + 8191) / 4096 * 4096));
  for (size_t i = 0; i < floats; ++i) p[i] = static_cast<float>(static_cast<int>(i * 2654435761u >> 20) - 2048) / 2048;
  return p;
}

// Prints a line per tactic and returns the best time in microseconds.
double time_layer(SpinningThreadPool& thread_pool, int threads, int rounds, Isa isa, const Layer& l) {
  ConvShape s{};
  s.batch = 1, s.in_h = s.in_w = l.size, s.in_c = l.in_c, s.out_c = l.out_c;
  s.kernel_h = s.kernel_w = l.kernel, s.stride_h = s.stride_w = l.stride, s.dilation_h = s.dilation_w = 1;
  s.pad_top = s.pad_left = l.kernel / 2, s.groups = l.groups;
  s.out_h = s.out_w = (l.size + 2 * (l.kernel / 2) - l.kernel) / l.stride + 1;
  s.in_pixel = l.in_c, s.in_row = s.in_pixel * l.size, s.in_image = s.in_row * l.size;
  s.out_pixel = l.out_c, s.out_row = s.out_pixel * s.out_w, s.out_image = s.out_row * s.out_h;
  s.res_pixel = s.out_pixel, s.res_row = s.out_row, s.res_image = s.out_image;
  s.in_nchw = l.in_c <= 4 && l.kernel > 1;
  const Epilogue e{l.act, 0, 6, l.residual ? Residual::before : Residual::none};
  float* in = allocate(s.in_image);
  float* out = allocate(s.out_image);
  float* residual = allocate(s.out_image);
  float* weights = allocate(int64_t{s.out_c} * (s.in_c / s.groups) * l.kernel * l.kernel);
  const double flop = 2.0 * s.out_h * s.out_w * s.out_c * (s.in_c / s.groups) * l.kernel * l.kernel;
  double best = 1e30;
  for (const ConvTactic& tactic : conv_tactics(isa)) {
    if (tactic.refuses(s, e)) continue;
    float* packed = allocate(tactic.packed_floats(s) + 4096);
    tactic.pack(s, weights, packed);
    const auto kernel = tactic.make(s, e, packed, nullptr, threads);
    float* workspace = allocate(kernel->workspace_bytes() / 4 + 64);
    std::vector<double> times, peaks;
    for (int i = 0; i < rounds + 2; ++i) {
      const double peak = peak_gflops(thread_pool, threads, isa);
      const double begin = now();
      thread_pool.run([&](int id) {
        kernel->run(in, residual, out,
                    {id, threads, SpinningThreadPool::barrier, &thread_pool, reinterpret_cast<std::byte*>(workspace)});
      });
      const double time = now() - begin;
      if (i < 2) continue;
      times.push_back(time);
      peaks.push_back(peak);
    }
    std::sort(times.begin(), times.end());
    std::sort(peaks.begin(), peaks.end());
    // The best round against the best yardstick: medians mean nothing while other processes run.
    const double fastest = times[0], peak = peaks.back(), gflops = flop / fastest * 1e-9;
    std::printf("%-9s %d x %4d %4d>%-4d %dx%d/%d g%-4d %-14s %8.1f us (median %8.1f) %6.1f GFLOP/s %5.1f %% of %5.1f\n",
                l.net, l.count, l.size, l.in_c, l.out_c, l.kernel, l.kernel, l.stride, l.groups, tactic.name,
                fastest * 1e6, times[times.size() / 2] * 1e6, gflops, 100 * gflops / peak, peak);
    best = std::min(best, fastest * 1e6);
    std::free(packed);
    std::free(workspace);
  }
  for (float* p : {in, out, residual, weights}) std::free(p);
  return best < 1e29 ? best : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const std::string filter = argc > 3 ? argv[3] : "";
  const Isa isa = vectors_of(detect_isa());
  SpinningThreadPool thread_pool(threads);
  std::string net;
  double sum = 0;
  const auto report = [&] {
    if (!net.empty()) std::printf("%s: sum of the best forms %.2f ms\n", net.c_str(), sum * 1e-3);
    sum = 0;
  };
  for (const Layer& layer : kLayers) {
    if (!filter.empty() && filter != layer.net) continue;
    if (net != layer.net) report();
    net = layer.net;
    sum += layer.count * time_layer(thread_pool, threads, rounds, isa, layer);
  }
  report();
}
