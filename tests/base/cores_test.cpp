// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

#include "base/cores.h"
#include "base/thread_pool.h"

using namespace tenon;

TEST(Cores, TwoClaimsNeverHoldTheSameCore) {
  const int cores = static_cast<int>(allowed_cores().size());
  const auto all = CoreClaim::of(cores);
  if (all.empty()) GTEST_SKIP() << "another process holds cores";
  EXPECT_TRUE(CoreClaim::of(1).empty());
}

TEST(Cores, AClaimEndsWithItsHolder) {
  if (CoreClaim::of(1).empty()) GTEST_SKIP() << "another process holds cores";
  EXPECT_FALSE(CoreClaim::of(1).empty());
}

TEST(Cores, WorkersOfOneThreadPoolStandOnDifferentCores) {
  const int cores = static_cast<int>(allowed_cores().size());
  if (cores < 2) GTEST_SKIP() << "one core";
  std::vector<int> pinned(static_cast<size_t>(cores), -1);
  ThreadPool thread_pool(cores, Denormals::flushed, Helpers::all);
  thread_pool.run(
      [](void* context, const Worker& worker) {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1)
          for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) static_cast<int*>(context)[worker.id] = cpu;
      },
      pinned.data());
  EXPECT_EQ(pinned[0], -1) << "the caller's thread is left alone";
  std::set<int> different;
  int count = 0;
  for (int cpu : pinned)
    if (cpu >= 0) different.insert(cpu), ++count;
  EXPECT_EQ(static_cast<int>(different.size()), count);
}

TEST(ThreadPool, RunsEveryWorkerOnceAndMeetsAtBarriers) {
  for (int threads : {1, 2, 5}) {
    ThreadPool thread_pool(threads, Denormals::flushed, Helpers::all);
    struct Context {
      int threads;
      std::atomic<int> before{0};
      std::atomic<int> wrong{0};
    } context{threads};
    for (int round = 0; round < 200; ++round) {
      context.before = 0;
      thread_pool.run(
          [](void* pointer, const Worker& worker) {
            auto& self = *static_cast<Context*>(pointer);
            self.before.fetch_add(1);
            worker.sync();
            if (self.before.load() != self.threads) self.wrong.fetch_add(1);
          },
          &context);
    }
    EXPECT_EQ(context.wrong.load(), 0) << threads;
  }
}
