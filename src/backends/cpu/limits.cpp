// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/limits.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/panels.h"
#include "base/thread_pool.h"

namespace tenon::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int rounds = 7;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// The least microseconds of one run of `work`(worker) by all threads.
template <class Work>
double least(ThreadPool& pool, Work work) {
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    pool.run([](void* context, const Worker& worker) { (*static_cast<Work*>(context))(worker); }, &work);
    best = std::min(best, microseconds_since(begin));
  }
  return best;
}

/// Bytes read and written in a microsecond where each thread copies so many again and again.
double copied(ThreadPool& pool, size_t bytes, int times) {
  const auto threads = static_cast<size_t>(pool.threads());
  std::vector<char> from(bytes * threads, 1), to(bytes * threads);
  const double time = least(pool, [&](const Worker& worker) {
    for (int at = 0; at < times; ++at)
      std::memcpy(to.data() + bytes * static_cast<size_t>(worker.id),
                  from.data() + bytes * static_cast<size_t>(worker.id), bytes);
  });
  return 2.0 * static_cast<double>(bytes) * times * pool.threads() / time;
}

/// Multiply-adds in a microsecond, of a product whose operands stay in the first cache.
double multiplied(ThreadPool& pool) {
  constexpr int64_t rows = 84, depth = 128;
  constexpr int times = 200;
  const Isa isa = active_isa();
  const int64_t columns = panel_columns(isa);
  const auto threads = static_cast<size_t>(pool.threads());
  const std::vector<float> a(rows * depth, 0.5f), panel(static_cast<size_t>(depth * columns), 0.5f);
  std::vector<float> results(threads * rows * static_cast<size_t>(columns));
  const double time = least(pool, [&](const Worker& worker) {
    for (int at = 0; at < times; ++at)
      multiply_panel(isa, a.data(), depth, rows, panel.data(), depth,
                     results.data() + worker.id * rows * columns, columns, columns);
  });
  return static_cast<double>(rows * depth * columns) * times * pool.threads() / time;
}

}  // namespace

backends::Limits measure_limits(int threads) {
  ThreadPool pool(threads, Denormals::flushed, Helpers::all);
  pool.gather();
  const long found = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const size_t second = found > 0 ? static_cast<size_t>(found) : size_t{256} << 10;
  backends::Limits limits;
  limits.cache_bytes = static_cast<double>(second) * threads;
  limits.cache = copied(pool, second / 4, 8);
  limits.memory = copied(pool, size_t{24} << 20, 1);
  limits.products = multiplied(pool);
  constexpr int steps = 100;
  limits.step = least(pool, [](const Worker& worker) {
                  for (int at = 0; at < steps; ++at) worker.sync();
                }) / steps;
  return limits;
}

}  // namespace tenon::cpu
