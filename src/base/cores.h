// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

namespace tenon {

/// Physical cores this process may use, as the number of one logical CPU of each: those in the affinity mask, siblings
/// of a core counted once.
std::vector<int> allowed_cores();

struct ContainerLimits;

/// Cores to use by default: the allowed ones, cut by the quota and the CPUs of the container; at least 1.
int usable_cores();
/// The same of given numbers.
int usable_cores(int allowed, const ContainerLimits& limits);

/// A core that this thread pool has to itself as far as other thread pool go, of this process or another. Held by the
/// name of an abstract socket, which the system frees when the holder dies.
class CoreClaim {
 public:
  CoreClaim() = default;
  CoreClaim(CoreClaim&& other) noexcept : core_(other.core_), socket_(other.socket_) {
    other.core_ = other.socket_ = -1;
  }
  ~CoreClaim();
  /// Claims of `count` different cores that nobody holds; empty when there are not as many, or names cannot be held
  /// here.
  static std::vector<CoreClaim> of(int count);
  /// Keeps the calling thread on the core.
  void pin() const;

 private:
  int core_ = -1, socket_ = -1;
};

}  // namespace tenon
