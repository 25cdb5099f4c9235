// SPDX-License-Identifier: Apache-2.0
#include "backends/weight_cache.h"

namespace tenon::backends {

size_t WeightCache::count() const {
  const std::lock_guard lock(mutex_);
  size_t alive = 0;
  for (const auto& [key, held] : held_) alive += !held.expired();
  return alive;
}

}  // namespace tenon::backends
