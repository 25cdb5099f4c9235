// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/executable.h"

namespace tenon::backends {

/// What an engine's sessions have compiled, so that sessions of the same sizes, threads and device share kernels and
/// packed weights. What no session holds any more is given up.
class CompiledCache {
 public:
  using Entry = std::shared_ptr<const Compiled>;
  CompiledCache() = default;
  /// A copy begins empty: it is of another engine.
  CompiledCache(const CompiledCache&) {}
  /// What is held under `key`, else what `make` gives.
  Entry get(const std::string& key, const std::function<Entry()>& make);
  /// For `make` alone: of what is held one of the same graph, device and threads; null: there is none.
  Entry like(const Schedule& schedule) const;

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Compiled>> held_;
};

}  // namespace tenon::backends
