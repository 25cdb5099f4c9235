// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

/// Packed weights of an engine on a device, so that all its sessions, sizes and threads hold them once.
namespace tenon::backends {

class WeightCache {
 public:
  /// All that a packed form depends on: the memory of the constant, what packs it, and the numbers it goes by.
  using Key = std::array<int64_t, 10>;

  /// A packed form, before anybody has packed it.
  struct Form {
    Key key;
    size_t bytes;
  };

  /// What is held under `key`, else what `make` gives; given up when nobody holds it any more. Who holds it must hold
  /// the constant, too.
  template <class Make>
  auto get(const Key& key, const Make& make) {
    using Held = decltype(make());
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const void>& slot = held_[key];
    if (const std::shared_ptr<const void> known = slot.lock())
      return std::static_pointer_cast<typename Held::element_type>(known);
    Held made = make();
    slot = made;
    return made;
  }
  /// How many are held, by anyone.
  size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<const void>> held_;
};

}  // namespace tenon::backends
