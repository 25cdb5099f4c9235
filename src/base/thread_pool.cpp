// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <immintrin.h>

#include "base/memory.h"

namespace tenon {
namespace {

constexpr int spins_before_yield = 4000;
constexpr int yields_before_sleep = 200;
constexpr unsigned flush_bits = 0x8040;  // FTZ and DAZ of MXCSR

unsigned with(Denormals denormals, unsigned state) {
  return denormals == Denormals::flushed ? state | flush_bits : state & ~flush_bits;
}

}  // namespace

DenormalScope::DenormalScope(Denormals denormals) : saved_(_mm_getcsr()) { _mm_setcsr(with(denormals, saved_)); }
DenormalScope::~DenormalScope() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int threads, Denormals denormals) : threads_(threads), denormals_(denormals) {
  // One core is left to the caller. Where other thread pool hold the cores, the system places the workers.
  if (threads_ > 1 && static_cast<size_t>(threads_) <= allowed_cores().size()) claims_ = CoreClaim::of(threads_ - 1);
  for (int id = 1; id < threads_; ++id) others_.emplace_back([this, id] { serve(id); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void ThreadPool::serve(int id) {
  _mm_setcsr(with(denormals_, _mm_getcsr()));
  if (!claims_.empty()) claims_[static_cast<size_t>(id) - 1].pin();
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
    {
      const BudgetScope scope(*budget_);
      function_(context_, id);
    }
    left_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run(void (*function)(void*, int), void* context) {
  const DenormalScope scope(denormals_);
  if (threads_ == 1) {
    function(context, 0);
    return;
  }
  function_ = function;
  context_ = context;
  budget_ = &current_budget();
  left_.store(threads_ - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1);
  if (asleep_.load()) epoch_.notify_all();
  function(context, 0);
  for (int spins = 0; left_.load(std::memory_order_acquire);)
    if (++spins < spins_before_yield) _mm_pause();
    else std::this_thread::yield();
}

void ThreadPool::barrier() {
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
