#include "base/team.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tenon {
namespace {

constexpr int spins_before_yield = 4000;
constexpr int yields_before_sleep = 200;
constexpr unsigned flush_bits = 0x8040;  // FTZ and DAZ of MXCSR

/// Whole cores of the cgroup's quota; 0 where there is none.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::stod(quota) / period + 0.5));
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const int quota = quota_cores()) cores = std::min(cores, quota);
  return std::max(1, cores);
}

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | flush_bits); }
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }

Team::Team(int threads) : threads_(threads) {
  for (int id = 1; id < threads_; ++id) others_.emplace_back([this, id] { serve(id); });
}

Team::~Team() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void Team::serve(int id) {
  _mm_setcsr(_mm_getcsr() | flush_bits);
  uint32_t seen = 0;
  for (;;) {
    int spins = 0, yields = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spins < spins_before_yield) {
        _mm_pause();
      } else if (++yields < yields_before_sleep) {
        std::this_thread::yield();
      } else {
        asleep_.fetch_add(1);
        epoch_.wait(seen);
        asleep_.fetch_sub(1);
        spins = yields = 0;
      }
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    function_(context_, id);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

void Team::run(void (*function)(void*, int), void* context) {
  const FlushDenormals flush;
  if (threads_ == 1) {
    function(context, 0);
    return;
  }
  function_ = function;
  context_ = context;
  left_.store(threads_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1);
  if (asleep_.load()) epoch_.notify_all();
  function(context, 0);
  for (int spins = 0; left_.load(std::memory_order_acquire);)
    if (++spins < spins_before_yield) _mm_pause();
    else std::this_thread::yield();
}

void Team::barrier() {
  if (threads_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase;)
    if (++spins < spins_before_yield) _mm_pause();
    else std::this_thread::yield();
}

}  // namespace tenon
