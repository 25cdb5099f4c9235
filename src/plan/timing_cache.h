// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "plan/plan.h"

namespace tenon::plan {

/// Measured kernel times that outlive a build, shared by all builds on this machine: JSON of processors and instruction
/// sets, of problems, of kernels with the hash of what was measured. Several builders may use it at once: each merges
/// under a lock and replaces it atomically. What other versions of a kernel took stays beside what this program's take.
/// A file that cannot be read counts as empty, one of an earlier form, too; one of a later form is left as it is.
class TimingCache {
 public:
  /// `path`: "" is timing.json in cache_path(), which nobody else may be able to write to; "-" is no cache. A link is
  /// not followed: it is replaced. Throws Error(usage) where the path names a file of another kind.
  TimingCache(const std::string& path, const std::string& isa);
  const Records& records() const { return records_; }
  /// Merges what was measured, which records() has from now on, and writes; a failure to write is no error (the cache
  /// is a convenience).
  void add(const Records& records);
  /// Why there is none though one was asked for; else empty.
  const std::string& why_not() const { return why_not_; }

 private:
  void open(const std::string& path);
  std::optional<OpenFolder> folder_;
  std::string name_, machine_, why_not_;
  Records records_;
};

/// Whether a file of this content may be replaced by a cache: an empty one, or an object with a version whose other
/// entries are objects.
bool is_timing_cache(std::span<const std::byte> content);

/// The processor's name by /proc/cpuinfo; "unknown" where it has none.
std::string processor_of(std::string_view cpuinfo);

}  // namespace tenon::plan
