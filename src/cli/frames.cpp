// SPDX-License-Identifier: Apache-2.0
#include "cli/frames.h"

#include <utility>

#include "cli/signals.h"

namespace tenon::cli {
namespace {
constexpr size_t most_ready = 2;
}  // namespace

Frames::Frames(const std::string& path) : Frames(vision::VideoReader(path)) {}

Frames::Frames(vision::VideoReader reader)
    : reader_(std::move(reader)), fps_(reader_.fps()), is_live_(reader_.is_live()), thread_([this] { decode(); }) {}

std::unique_ptr<Frames> Frames::of_stream(const std::string& address) {
  vision::VideoReader reader(address, {.cancelled = [] { return interrupted() != 0; }});
  return std::unique_ptr<Frames>(new Frames(std::move(reader)));
}

Frames::~Frames() { stop(); }

void Frames::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Frames::decode() {
  std::exception_ptr thrown;
  try {
    for (vision::Image frame; reader_.next(frame);) {
      std::unique_lock lock(mutex_);
      if (is_live_ && ready_.size() >= most_ready) {
        spare_.push_back(std::move(ready_.front()));
        ready_.erase(ready_.begin());
      }
      changed_.wait(lock, [&] { return stopped_ || ready_.size() < most_ready; });
      if (stopped_) break;
      ready_.push_back(std::exchange(frame, {}));
      if (!spare_.empty()) {
        frame = std::move(spare_.back());
        spare_.pop_back();
      }
      changed_.notify_all();
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  thrown_ = thrown;
  changed_.notify_all();
}

bool Frames::next(vision::Image& frame) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ || !ready_.empty(); });
  if (ready_.empty()) {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    return false;
  }
  spare_.push_back(std::move(frame));
  frame = std::move(ready_.front());
  ready_.erase(ready_.begin());
  changed_.notify_all();
  return true;
}

std::string Frames::fault() {
  stop();
  return reader_.fault();
}

}  // namespace tenon::cli
