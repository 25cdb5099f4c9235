// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "vision/video.h"

namespace tenon::cli {

/// Frames of a video, decoded by a thread of its own while others are worked on.
class Frames {
 public:
  /// Throws as vision::VideoReader does.
  explicit Frames(const std::string& path);
  /// Frames of a stream, until its end or a signal.
  static std::unique_ptr<Frames> of_stream(const std::string& address);
  ~Frames();
  double fps() const { return fps_; }
  Frames(const Frames&) = delete;
  /// Gives the next frame, taking the image's memory for a later one; false at the end. Throws what reading threw.
  bool next(vision::Image& frame);
  /// After the end: what was wrong with the file; "" for nothing.
  std::string fault();

 private:
  explicit Frames(vision::VideoReader reader);
  void decode();
  void stop();

  vision::VideoReader reader_;  // the thread's own until it has ended
  double fps_;
  bool is_live_;  // frames that come too fast are left out, so that the newest are seen
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<vision::Image> ready_, spare_;  // ready ones in order
  std::exception_ptr thrown_;
  bool done_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace tenon::cli
