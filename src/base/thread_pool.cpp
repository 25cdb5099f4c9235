// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <tenon/error.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "base/container.h"
#include "base/futex.h"
#include "base/memory.h"

namespace tenon {
namespace {

// Nanoseconds.
constexpr int64_t patience = 200'000;      // spinning before sleep
constexpr int64_t joining = 5'000'000;     // the same of a helper that was woken too late for the run under way
constexpr int64_t fresh = 5'000;           // a helper that was seen so long ago is on a core
constexpr int64_t worth_waking = 50'000;   // of work
constexpr int64_t longest_wait = 150'000;  // for helpers that are being woken, and of the work this part:
constexpr int64_t wait_share = 16;
constexpr int64_t longest_in_vain = 3'000'000;     // of a run alone though others were called, as a wait for them
constexpr int64_t longest_gathering = 20'000'000;  // spinning for `patience`, then looking now and then
constexpr std::chrono::nanoseconds gathering_look{50'000};
constexpr int first_spins = 64, spins_a_look = 8;
constexpr unsigned flush_bits = 0x8040;  // FTZ and DAZ of MXCSR

unsigned with(Denormals denormals, unsigned state) {
  return denormals == Denormals::flushed ? state | flush_bits : state & ~flush_bits;
}

int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int checked_threads(int threads) {
  if (threads > ThreadPool::most_threads)
    throw Error(
        Code::usage, "too many threads",
        {.why = std::to_string(threads), .hint = "give " + std::to_string(ThreadPool::most_threads) + " at most"});
  return threads;
}

/// Of all threads of this process.
int64_t cpu_used() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// A thread that is pinned to the core of the calling one goes to a core that none of them is pinned to.
template <class Range>
void part_from_caller(Range&& helpers) {
  cpu_set_t taken, allowed;
  CPU_ZERO(&taken);
  const int here = sched_getcpu();
  std::optional<pthread_t> same;
  for (auto& helper : helpers) {
    cpu_set_t set;
    const pthread_t thread = helper.thread.native_handle();
    if (pthread_getaffinity_np(thread, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) return;
    if (here >= 0 && CPU_ISSET(here, &set)) same = thread;
    CPU_OR(&taken, &taken, &set);
  }
  if (!same || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || CPU_ISSET(cpu, &taken)) continue;
    CPU_ZERO(&taken);
    CPU_SET(cpu, &taken);
    pthread_setaffinity_np(*same, sizeof taken, &taken);
    return;
  }
}

}  // namespace

DenormalScope::DenormalScope(Denormals denormals) : saved_(_mm_getcsr()) { _mm_setcsr(with(denormals, saved_)); }
DenormalScope::~DenormalScope() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int threads, Denormals denormals, Helpers helpers)
    : threads_(checked_threads(threads)),
      denormals_(denormals),
      kind_(helpers),
      admitted_(threads),
      helpers_(static_cast<size_t>(threads - 1)),
      allowance_(threads > 1 ? recent_container_limits().cores : 0, threads),
      allowed_(threads) {
  // One core is left to the caller. Where other thread pools hold the cores, the system places the helpers.
  if (threads_ > 1 && static_cast<size_t>(threads_) <= allowed_cores().size()) claims_ = CoreClaim::of(threads_ - 1);
  held_.reserve(helpers_.size());
  try {
    for (int at = 0; at + 1 < threads_; ++at)
      helpers_[static_cast<size_t>(at)].thread = std::thread([this, at] { serve(at); });
  } catch (const std::system_error& fault) {
    stop();
    throw Error(Code::resource, "the system gives no more threads",
                {.why = std::to_string(threads_) + " wanted: " + fault.code().message(), .hint = "use fewer threads"});
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  for (Helper& helper : helpers_) {
    helper.state.store(stopped);
    futex_wake(helper.state, 1);
  }
  for (Helper& helper : helpers_)
    if (helper.thread.joinable()) helper.thread.join();
}

/// Until it is called or stopped; whether it was called.
bool ThreadPool::rest(Helper& self, int at) {
  int64_t begin = clock_now();
  for (;;) {
    const uint32_t state = self.state.load(std::memory_order_acquire);
    if (state == called) return true;
    if (state == stopped) return false;
    const int64_t now = clock_now();
    self.seen.store(now, std::memory_order_relaxed);
    for (int spin = 0; spin < spins_a_look && self.state.load(std::memory_order_relaxed) == state; ++spin) _mm_pause();
    if (now - begin < (wants_more_.load(std::memory_order_relaxed) ? joining : patience)) continue;
    uint32_t expected = spinning;
    if (self.state.compare_exchange_strong(expected, asleep)) {
      awake_.fetch_sub(1);
      while (self.state.load(std::memory_order_acquire) == asleep) futex_wait(self.state, asleep);
      awake_.fetch_add(1);
      begin = clock_now();
      self.seen.store(begin, std::memory_order_relaxed);
      expected = waking;
      self.state.compare_exchange_strong(expected, spinning);
      wake(2 * at + 1), wake(2 * at + 2);
    }
  }
}

void ThreadPool::serve(int at) {
  _mm_setcsr(with(denormals_, _mm_getcsr()));
  if (!claims_.empty()) claims_[static_cast<size_t>(at)].pin();
  Helper& self = helpers_[static_cast<size_t>(at)];
  awake_.fetch_add(1);
  while (rest(self, at)) {
    {
      const BudgetScope scope(*budget_);
      function_(context_, Worker{self.id, static_cast<int>(workers_), &barrier_of, this, workspace_});
    }
    self.seen.store(clock_now(), std::memory_order_relaxed);
    self.state.store(spinning, std::memory_order_relaxed);
    if (left_.fetch_sub(1) == 1 && sleeping_.load()) futex_wake(left_, 1);
  }
}

/// Wakes a helper, which wakes those below it in a binary tree.
void ThreadPool::wake(int at) {
  if (at >= wanted_.load(std::memory_order_relaxed)) return;
  uint32_t expected = asleep;
  std::atomic<uint32_t>& state = helpers_[static_cast<size_t>(at)].state;
  if (state.load(std::memory_order_relaxed) == asleep && state.compare_exchange_strong(expected, waking)) {
    futex_wake(state, 1);
    return;
  }
  wake(2 * at + 1), wake(2 * at + 2);
}

/// Whether it spins, on a core.
bool ThreadPool::is_ready(const Helper& helper, int64_t now) const {
  return helper.state.load(std::memory_order_acquire) == spinning &&
         now - helper.seen.load(std::memory_order_relaxed) <= fresh;
}

/// Helpers that are ready, at most so many, who then await the call.
int ThreadPool::hold(int most, int64_t now) {
  int count = 0;
  for (int at = 0; at + 1 < threads_ && count < most; ++at) {
    Helper& helper = helpers_[static_cast<size_t>(at)];
    uint32_t state = spinning;
    if (kind_ == Helpers::all) {
      while (!helper.state.compare_exchange_weak(state, held)) {
      }
    } else if (!is_ready(helper, now) || !helper.state.compare_exchange_strong(state, held)) {
      continue;
    }
    helper.sleeps = state != spinning;
    held_.push_back(at);
    ++count;
  }
  return count;
}

int ThreadPool::most_workers(int64_t now) {
  if (kind_ == Helpers::all) return admitted_;
  if (allowance_.limits() && allowance_.is_due(now)) allowed_ = allowance_.threads(now, cpu_used());
  return stalls_.is_alone(now) ? 1 : std::min(admitted_, allowed_);
}

/// How many take part: those that are ready or come soon.
int ThreadPool::assemble(int most, int64_t now, int64_t expected) {
  int workers = 1 + hold(most - 1, now);
  if (workers == most || expected + alone_ < worth_waking) return workers;
  wanted_.store(most - 1, std::memory_order_relaxed);
  wake(0);
  const int64_t end = now + std::min(longest_wait, expected / wait_share);
  while (workers < most && now < end) {
    for (int spin = 0; spin < spins_a_look; ++spin) _mm_pause();
    now = clock_now();
    workers += hold(most - workers, now);
  }
  if (workers == 1 && expected > 1 && !claims_.empty()) part_from_caller(std::span(helpers_).first(1));
  return workers;
}

void ThreadPool::gather() {
  if (!claims_.empty()) part_from_caller(helpers_);  // or each run waits for two slices of one core
  wanted_.store(threads_ - 1, std::memory_order_relaxed);
  wake(0);
  const int64_t begin = clock_now();
  wants_more_.store(true, std::memory_order_relaxed);
  for (int64_t now = begin; awake_.load() + 1 < threads_ && now - begin < longest_gathering; now = clock_now()) {
    if (now - begin < patience) {
      _mm_pause();
      continue;
    }
    std::this_thread::sleep_for(gathering_look);  // it may be this core that a helper waits for
    wake(0);                                      // who was there and fell asleep before this thread had a core
  }
  wants_more_.store(false, std::memory_order_relaxed);
}

void ThreadPool::run(Function function, void* context, std::byte* workspace, int64_t expected) {
  const DenormalScope scope(denormals_);
  if (threads_ == 1) {
    function(context, Worker{0, 1, &barrier_of, this, workspace});
    return;
  }
  const int64_t begin = clock_now();
  const int64_t alone = alone_ = std::max<int64_t>(0, alone_ - (begin - ended_));
  if (expected > 1) work_ = expected;
  most_ = expected > 0 ? most_workers(begin) : 1;
  held_.clear();
  const int workers = most_ > 1 ? assemble(most_, begin, expected) : 1;
  if (workers > 1) {
    function_ = function, context_ = context, workspace_ = workspace;
    budget_ = &current_budget();
    workers_ = static_cast<uint32_t>(workers), caller_ = std::this_thread::get_id();
    part_at_.store(phase_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    left_.store(workers_ - 1, std::memory_order_relaxed);
    for (size_t at = 0; at < held_.size(); ++at) {
      Helper& helper = helpers_[static_cast<size_t>(held_[at])];
      helper.id = static_cast<int>(at) + 1;
      helper.state.store(called, std::memory_order_release);
      if (helper.sleeps) futex_wake(helper.state, 1);
    }
  }
  wants_more_.store(workers < most_, std::memory_order_relaxed);
  function(context, Worker{0, workers, &barrier_of, this, workspace});
  wants_more_.store(false, std::memory_order_relaxed);
  if (workers > 1)
    for (uint32_t left; (left = left_.load(std::memory_order_acquire)) != 0;) wait_while(left_, left);
  alone_ = 0;
  if (workers > 1) return;
  ended_ = clock_now();
  alone_ = std::min(ended_ - begin + alone, 2 * worth_waking);
  if (most_ > 1 && expected >= worth_waking) stalls_.waited(ended_, std::min(ended_ - begin, longest_in_vain), work_);
}

bool ThreadPool::may_grow(const Worker& worker) const {
  if (worker.count >= most_ || awake_.load(std::memory_order_relaxed) < worker.count) return false;
  const int64_t now = clock_now();
  return std::any_of(helpers_.begin(), helpers_.end(), [&](const Helper& helper) { return is_ready(helper, now); });
}

bool ThreadPool::parts(const Worker& worker) {
  if (threads_ == 1) return false;
  if (worker.id == 0 && allowance_.limits()) {
    const int64_t now = clock_now();
    if (allowance_.is_due(now)) {
      most_ = most_workers(now);
      wanted_.store(most_ - 1, std::memory_order_relaxed);
      if (most_ > worker.count) wake(0);
    }
  }
  const bool grows = worker.id == 0 && may_grow(worker);
  if (worker.count == 1) return grows;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (worker.id == 0 && (grows || worker.count > most_)) part_at_.store(phase, std::memory_order_relaxed);
  barrier();
  return part_at_.load(std::memory_order_relaxed) == phase;
}

void ThreadPool::barrier() {
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) != workers_ - 1) {
    wait_while(phase_, phase);
    return;
  }
  arrived_.store(0, std::memory_order_relaxed);
  phase_.store(phase + 1);
  if (sleeping_.load()) futex_wake(phase_, INT_MAX);
}

/// Spins for a while, then sleeps.
void ThreadPool::wait_while(std::atomic<uint32_t>& word, uint32_t value) {
  for (int spin = 0; spin < first_spins; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return;
    _mm_pause();
  }
  const int64_t begin = clock_now(), end = begin + patience;
  do {
    for (int spin = 0; spin < spins_a_look; ++spin) {
      if (word.load(std::memory_order_acquire) != value) return;
      _mm_pause();
    }
  } while (clock_now() < end);
  sleeping_.fetch_add(1);
  while (word.load() == value) futex_wait(word, value);
  sleeping_.fetch_sub(1);
  if (kind_ == Helpers::all || std::this_thread::get_id() != caller_) return;
  const int64_t now = clock_now();
  stalls_.waited(now, now - begin, work_);
  if (stalls_.is_alone(now)) most_ = 1;
}

}  // namespace tenon
