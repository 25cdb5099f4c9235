// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/worker.h"

namespace tenon {

class Budget;

/// What becomes of numbers below the smallest normal one.
enum class Denormals : uint8_t { flushed, kept };

/// Threads that run one function together: one region per inference, spinning barriers inside, sleep when idle. Each
/// worker but the caller's is pinned to a core that no other thread pool holds, where there are as many. Every worker
/// flushes denormals to zero, or none does. Not thread-safe: one run at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads, Denormals denormals = Denormals::flushed);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  int threads() const { return threads_; }
  Denormals denormals() const { return denormals_; }
  /// Calls function(context, worker id) on every worker, the caller being worker 0; returns when all have. Must not
  /// throw.
  void run(void (*function)(void*, int), void* context);
  void barrier();
  static void barrier_of(void* thread_pool) { static_cast<ThreadPool*>(thread_pool)->barrier(); }
  Worker worker(int id, std::byte* workspace) { return {id, threads_, &ThreadPool::barrier_of, this, workspace}; }

 private:
  void serve(int id);

  int threads_;
  Denormals denormals_;
  std::vector<CoreClaim> claims_;  // of workers 1 and up; empty: not pinned
  std::vector<std::thread> others_;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int> left_{0};
  alignas(64) std::atomic<int> asleep_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  void (*function_)(void*, int) = nullptr;
  void* context_ = nullptr;
  const std::shared_ptr<Budget>* budget_ = nullptr;  // the caller's
  bool stop_ = false;
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
