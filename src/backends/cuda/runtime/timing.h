// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "backends/cuda/runtime/device.h"

/// Work captured once and replayed: how everything runs, and how everything is timed.
namespace tenon::cuda {

class Recording {
 public:
  Recording() = default;
  /// Captures what `work` puts on the stream.
  Recording(Stream stream, const std::function<void()>& work);
  Recording(Recording&& other) noexcept { std::swap(exec_, other.exec_); }
  Recording& operator=(Recording&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Recording();
  explicit operator bool() const { return exec_ != nullptr; }
  void replay(Stream stream) const;

 private:
  GraphExec exec_ = nullptr;
};

/// A point of a stream that other streams may wait for.
class Mark {
 public:
  explicit Mark(Stream stream);
  Mark(Mark&& other) noexcept { std::swap(event_, other.event_); }
  ~Mark();
  void hold(Stream stream) const;

 private:
  Event event_ = nullptr;
};

/// A stream of its own, and the time between two points of it.
class Clock {
 public:
  Clock();
  ~Clock();
  Clock(const Clock&) = delete;
  Stream stream() const { return stream_; }
  void synchronise() const;
  /// Microseconds that one replay takes on the device; waits for it.
  double time(const Recording& recording) const;

 private:
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace tenon::cuda
