// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::runtime {

/// A thread that calls functions one after the other, in the order they were given. The destructor waits for all.
class WorkQueue {
 public:
  WorkQueue() : thread_([this] { serve(); }) {}
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  /// `work` must not throw.
  void push(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tenon::runtime
