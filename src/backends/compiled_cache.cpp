// SPDX-License-Identifier: Apache-2.0
#include "backends/compiled_cache.h"

namespace tenon::backends {

CompiledCache::Entry CompiledCache::get(const std::string& key, const std::function<Entry()>& make) {
  const std::lock_guard lock(mutex_);
  if (Entry held = held_[key].lock()) return held;
  Entry made = make();
  std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
  held_[key] = made;
  return made;
}

CompiledCache::Entry CompiledCache::like(const Schedule& schedule) const {
  for (const auto& [key, entry] : held_) {
    Entry held = entry.lock();
    if (held && held->schedule().shared == schedule.shared && held->schedule().device == schedule.device &&
        held->schedule().threads == schedule.threads)
      return held;
  }
  return nullptr;
}

}  // namespace tenon::backends
