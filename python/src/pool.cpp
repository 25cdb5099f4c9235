// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tenon::python {

std::unique_ptr<Session> Pool::take() {
  std::unique_lock lock(mutex_);
  given_.wait(lock, [this] { return !idle_.empty() || made_ < most_; });
  if (!idle_.empty()) {
    auto session = std::move(idle_.back());
    idle_.pop_back();
    return session;
  }
  ++made_;
  lock.unlock();
  std::unique_ptr<Session> session;
  try {
    session = std::make_unique<Session>(engine_.session(threads_));
  } catch (...) {
    lock.lock();
    --made_;
    given_.notify_one();
    throw;
  }
  lock.lock();
  // As many as have cores of their own; two on a GPU, so that copies lie beside work.
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  most_ = engine_.device() == Device() ? std::max(1, cores / std::max(1, session->threads())) : 2;
  given_.notify_all();
  return session;
}

void Pool::give(std::unique_ptr<Session> session) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(session));
  given_.notify_one();
}

}  // namespace tenon::python
