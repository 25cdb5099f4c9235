// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <exception>
#include <utility>

namespace tenon {

/// The first exception of what several threads do in lockstep. A thread that fails must not keep the others waiting at
/// a barrier: the rest is skipped.
class Faults {
 public:
  bool any() const { return failed_.load(std::memory_order_relaxed); }
  /// Of the exception that is being handled.
  void note() {
    if (!failed_.exchange(true)) fault_ = std::current_exception();
  }
  /// By one thread, once all are done.
  void rethrow() {
    if (failed_.exchange(false)) std::rethrow_exception(std::exchange(fault_, nullptr));
  }

 private:
  std::atomic<bool> failed_{false};
  std::exception_ptr fault_;
};

}  // namespace tenon
