#pragma once
#include <string>

#include "plan/plan.h"

namespace tenon::plan {

/// Measured kernel times that outlive a build, shared by all builds on this machine. One JSON file a machine kind;
/// several builders may use it at once: each merges under a lock and replaces it atomically. A file that cannot be read
/// counts as empty.
class TimingCache {
 public:
  /// `path`: "" is TENON_CACHE_DIR, XDG_CACHE_HOME/tenon or ~/.cache/tenon; "-" is no cache.
  TimingCache(const std::string& path, const std::string& isa);
  const Records& records() const { return records_; }
  /// Merges and writes; a failure to write is no error (the cache is a convenience).
  void add(const Records& records);

 private:
  std::string path_, machine_;
  Records records_;
};

}  // namespace tenon::plan
