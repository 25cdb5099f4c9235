// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tenon {

/// One thread of a thread pool, as a kernel sees it: which of how many it is, the barrier they share, and the step's
/// workspace.
struct Worker {
  int id, count;
  void (*barrier)(void*);
  void* thread_pool;
  std::byte* workspace;  // shared by all workers, 64-byte aligned
  void sync() const {
    if (count > 1) barrier(thread_pool);
  }
  /// This worker's contiguous share of `total` items.
  void share(int64_t total, int64_t& begin, int64_t& end) const {
    begin = total * id / count;
    end = total * (id + 1) / count;
  }
};

}  // namespace tenon
