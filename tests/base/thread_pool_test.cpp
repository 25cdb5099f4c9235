// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tenon/error.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "base/cpu_allowance.h"
#include "base/stall_meter.h"
#include "base/thread_pool.h"

using namespace tenon;

namespace {

constexpr int64_t ms = 1'000'000;

/// Steps over a row of numbers, each of which reads all that the step before has written: whatever is done twice, left
/// out or done too early shows in the sums.
class Steps {
 public:
  Steps(ThreadPool& thread_pool, size_t steps, size_t width)
      : thread_pool_(thread_pool), steps_(steps), now_(width), next_(width) {}
  std::vector<uint64_t> run(uint64_t seed) {
    std::iota(now_.begin(), now_.end(), seed);
    for (begin_ = 0; begin_ < steps_; begin_ = end_) {
      thread_pool_.run([](void* self, const Worker& worker) { static_cast<Steps*>(self)->work(worker); }, this);
      ++calls;
    }
    return now_;
  }
  int64_t calls = 0;
  std::atomic<int> most{0};

 private:
  void work(const Worker& worker) {
    if (worker.id == 0 && worker.count > most) most = worker.count;
    size_t at = begin_;
    for (bool parts = false; at < steps_ && !parts; ++at) {
      int64_t begin, end;
      worker.share(static_cast<int64_t>(now_.size()), begin, end);
      for (int64_t item = begin; item < end; ++item)
        next_[item] = 31 * now_[item] + now_[(static_cast<size_t>(item) * 7 + at) % now_.size()] + at;
      worker.sync();
      for (int64_t item = begin; item < end; ++item) now_[item] = next_[item];
      if (at + 1 < steps_) parts = thread_pool_.parts(worker);
    }
    if (worker.id == 0) end_ = at;
  }

  ThreadPool& thread_pool_;
  size_t steps_, begin_ = 0, end_ = 0;
  std::vector<uint64_t> now_, next_;
};

std::vector<uint64_t> expected(size_t steps, size_t width, uint64_t seed) {
  ThreadPool alone(1);
  return Steps(alone, steps, width).run(seed);
}

/// Threads that compute all the time.
class Load {
 public:
  explicit Load(int threads) {
    for (int at = 0; at < threads; ++at)
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST(StallMeter, RunsAloneAfterManyWaitsAndPausesLongerEachTime) {
  StallMeter meter;
  int64_t now = 5000 * ms;
  meter.waited(now, 3 * ms, ms / 10);
  EXPECT_FALSE(meter.is_alone(now)) << "one wait is none too many";
  meter.waited(now += 5 * ms, 3 * ms, ms / 10);
  ASSERT_TRUE(meter.is_alone(now));
  int64_t pauses[8];
  for (int64_t& pause : pauses) {
    const int64_t begin = now;
    while (meter.is_alone(now)) now += ms;
    pause = now - begin;
    meter.waited(now += 4 * ms, 3 * ms, ms / 10);
    EXPECT_FALSE(meter.is_alone(now)) << "one wait does not end a trial";
    meter.waited(now += 4 * ms, 3 * ms, ms / 10);
  }
  EXPECT_EQ(pauses[0], 20 * ms);
  EXPECT_EQ(pauses[1], 40 * ms);
  EXPECT_EQ(pauses[7], 1000 * ms) << "the longest";
  while (meter.is_alone(now)) now += ms;
  meter.waited(now += 2000 * ms, 3 * ms, ms / 10);
  meter.waited(now += ms, 3 * ms, ms / 10);
  EXPECT_TRUE(meter.is_alone(now + 19 * ms));
  EXPECT_FALSE(meter.is_alone(now + 20 * ms)) << "after a time of calm the first pause again";
}

TEST(StallMeter, WaitsThatLieFarApartDoNotAddUp) {
  for (const auto& [run, apart] : {std::pair{ms / 10, 60 * ms}, {20 * ms, 12 * ms}}) {
    StallMeter meter;
    for (int64_t now = ms; now < 5000 * ms; now += apart) {
      meter.waited(now, 3 * ms, run);
      EXPECT_FALSE(meter.is_alone(now)) << run << " " << now;
    }
  }
}

TEST(StallMeter, LongRunsBearMore) {
  for (const bool is_long : {false, true}) {
    StallMeter meter;
    for (int64_t now = ms; now < 1000 * ms; now += 12 * ms) meter.waited(now, 3 * ms, is_long ? 20 * ms : ms / 10);
    EXPECT_EQ(meter.is_alone(1000 * ms), !is_long);
  }
}

TEST(CpuAllowance, UsesNoMoreThanTheQuotaAndNearlyAllOfIt) {
  for (const auto& [cores, threads] : {std::pair{1.5, 2}, {3.5, 4}, {1.0, 2}, {2.25, 8}}) {
    CpuAllowance allowance(cores, threads);
    ASSERT_TRUE(allowance.limits());
    int64_t used = 0, now = ms, begin = used;
    bool fewer = false, more = false;
    for (int period = 0; period < 20; ++period, begin = used) {
      for (int64_t at = 0; at < 100; ++at, now += ms) {
        const int count = allowance.threads(now, used);
        (count > cores ? more : fewer) = true;
        used += count * ms;
      }
      EXPECT_LE(static_cast<double>(used - begin), cores * 100 * ms) << cores << " " << threads;
    }
    EXPECT_GE(static_cast<double>(used), 0.85 * std::max(1.0, cores * 0.97) * 2000 * ms) << cores << " " << threads;
    EXPECT_TRUE(fewer);
    EXPECT_EQ(more, cores != 1.0);
  }
  EXPECT_FALSE(CpuAllowance(2, 2).limits());
  EXPECT_FALSE(CpuAllowance(0, 2).limits());
}

TEST(ThreadPool, GivesTheSameWhoeverTakesPart) {
  constexpr size_t steps = 60, width = 97;
  const std::vector<uint64_t> right = expected(steps, width, 5);
  for (const Helpers helpers : {Helpers::ready, Helpers::all})
    for (int threads = 2; threads <= 5; ++threads) {
      ThreadPool thread_pool(threads, Denormals::flushed, helpers);
      Steps all(thread_pool, steps, width);
      for (int turn = 0; turn < 20; ++turn) {
        thread_pool.admit(turn % threads + 1);
        ASSERT_EQ(all.run(5), right) << threads;
        EXPECT_LE(all.most.exchange(0), turn % threads + 1);
      }
    }
}

TEST(ThreadPool, AllHelpersTakePartWhereAllAreAskedFor) {
  ThreadPool thread_pool(4, Denormals::flushed, Helpers::all);
  for (int turn = 0; turn < 20; ++turn) {
    Steps all(thread_pool, 3, 64);
    all.run(1);
    EXPECT_EQ(all.most, 4);
    // Behind the time for which helpers spin.
    if (turn % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, MakesProgressWithManyMoreThreadsThanCores) {
  constexpr size_t steps = 40, width = 61;
  const Load load(2 * static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int at = 0; at < 6; ++at)
    callers.emplace_back([at, &wrong] {
      ThreadPool thread_pool(2 + at);
      Steps all(thread_pool, steps, width);
      for (uint64_t seed = 0; seed < 100; ++seed) {
        if (all.run(seed) != expected(steps, width, seed)) ++wrong;
        if (seed % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, RefusesMoreThreadsThanThereCanBe) {
  EXPECT_THROW(ThreadPool(ThreadPool::most_threads + 1), Error);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto few = [] {
    const rlimit limit{1 << 30, 1 << 30};
    ::setrlimit(RLIMIT_AS, &limit);  // room for few stacks
    try {
      ThreadPool thread_pool(ThreadPool::most_threads);
    } catch (const Error& error) {
      std::exit(error.code() == Code::resource ? 7 : 1);
    }
    std::exit(0);
  };
  EXPECT_EXIT(few(), testing::ExitedWithCode(7), "");
#endif
}

TEST(ThreadPool, ACallerThatIsNotHelpedDoesAllItself) {
  ThreadPool thread_pool(4);
  thread_pool.admit(1);
  Steps all(thread_pool, 10, 64);
  EXPECT_EQ(all.run(3), expected(10, 64, 3));
  EXPECT_EQ(all.most, 1);
  EXPECT_EQ(all.calls, 1);
}
