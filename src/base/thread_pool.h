// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/cpu_allowance.h"
#include "base/stall_meter.h"
#include "base/worker.h"

namespace tenon {

class Budget;

/// What becomes of numbers below the smallest normal one.
enum class Denormals : uint8_t { flushed, kept };

/// Who takes part in a run beside the caller: helpers that stand ready on a core, or all, which measurements need.
enum class Helpers : uint8_t { ready, all };

/// Threads that run one function together: the caller and helpers, spinning barriers inside, sleep when idle. A helper
/// that is not on a core when a run begins is not waited for, and where helpers often lose their cores the caller runs
/// alone for a while. Each helper is pinned to a core that no other thread pool holds, where there are as many. Every
/// worker flushes denormals to zero, or none does. Not thread-safe: one run at a time.
class ThreadPool {
 public:
  using Function = void (*)(void* context, const Worker& worker);

  static constexpr int most_threads = 1024;

  /// Throws Error where there are more than most_threads, or the system gives fewer.
  explicit ThreadPool(int threads, Denormals denormals = Denormals::flushed, Helpers helpers = Helpers::ready);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  int threads() const { return threads_; }
  Denormals denormals() const { return denormals_; }
  /// Calls function(context, worker) on at most threads() workers, the caller being worker 0; returns when all have.
  /// Must not throw. `expected` nanoseconds of work: for little of it nobody is woken, for 1, the rest of a run, nobody
  /// waited for, and for 0 the caller runs alone.
  void run(Function function, void* context, std::byte* workspace = nullptr, int64_t expected = usual_work);
  /// Called by every worker of a run in place of sync() where the work can be left and taken up again: whether all
  /// return now, so that the caller runs the rest with fewer or more.
  bool parts(const Worker& worker);
  /// Wakes all helpers and waits until they are ready.
  void gather();
  /// No more than so many take part from here on.
  void admit(int workers) { admitted_ = workers; }

 private:
  static constexpr int64_t usual_work = 1'000'000;
  enum State : uint32_t { spinning, asleep, waking, held, called, stopped };
  struct alignas(64) Helper {
    std::atomic<uint32_t> state{spinning};
    std::atomic<int64_t> seen{0};  // when it was on a core last; only while it spins
    int id = 0;                    // in the run that it is called for
    bool sleeps = false;           // when it is called
    std::thread thread;
  };

  void stop();
  void serve(int at);
  bool rest(Helper& self, int at);
  int most_workers(int64_t now);
  int assemble(int most, int64_t now, int64_t expected);
  int hold(int most, int64_t now);
  bool is_ready(const Helper& helper, int64_t now) const;
  bool may_grow(const Worker& worker) const;
  void wake(int at);
  void barrier();
  void wait_while(std::atomic<uint32_t>& word, uint32_t value);
  static void barrier_of(void* thread_pool) { static_cast<ThreadPool*>(thread_pool)->barrier(); }

  int threads_;
  Denormals denormals_;
  Helpers kind_;
  int admitted_;
  std::vector<CoreClaim> claims_;  // of helpers; empty: not pinned
  std::vector<Helper> helpers_;
  // Of the run under way, written before helpers are called.
  Function function_ = nullptr;
  void* context_ = nullptr;
  std::byte* workspace_ = nullptr;
  const std::shared_ptr<Budget>* budget_ = nullptr;  // the caller's
  uint32_t workers_ = 1;
  std::thread::id caller_;
  // The caller's own.
  StallMeter stalls_;
  CpuAllowance allowance_;
  int allowed_;                // by the quota
  int64_t work_ = usual_work;  // of the run under way, and of others in their place
  int most_ = 1;               // in the run under way
  int64_t alone_ = 0;          // nanoseconds that it ran alone of late
  int64_t ended_ = 0;          // when its last run did
  std::vector<int> held_;

  alignas(64) std::atomic<uint32_t> left_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  std::atomic<uint32_t> part_at_{0};               // the phase in which all return
  alignas(64) std::atomic<uint32_t> sleeping_{0};  // of those in a run
  std::atomic<int> awake_{0};                      // helpers
  std::atomic<bool> wants_more_{false};            // whether the run under way has fewer workers than it may have
  std::atomic<int> wanted_{0};                     // helpers, the first so many
};

/// Flush-to-zero and denormals-are-zero, or neither, for the calling thread while it lives.
class DenormalScope {
 public:
  explicit DenormalScope(Denormals denormals);
  ~DenormalScope();
  DenormalScope(const DenormalScope&) = delete;

 private:
  unsigned saved_;
};

}  // namespace tenon
