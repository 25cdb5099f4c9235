// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace tenon {

/// What control groups allow this process: the least over its own group and those around it.
struct ContainerLimits {
  int version = 0;           ///< of control groups, 1 or 2; 0: there are none
  double cores = 0;          ///< of the CPU quota; 0: none
  std::string cpuset;        ///< CPUs as the system lists them, "0-3,8"; "": not told
  int64_t memory_bytes = 0;  ///< 0: none
  int64_t free_bytes = 0;    ///< what is left of the tightest memory limit; page cache counts as left
};

/// `root` is put before /proc and /sys, for tests.
ContainerLimits container_limits(const std::string& root = "");

/// Those of this process as they were less than a second ago: sessions ask whenever they are made, and reading takes
/// longer than all else that they do.
ContainerLimits recent_container_limits();

/// CPUs in a list such as "0-3,8"; 0 where it is no such list.
int cpus_in(const std::string& list);

}  // namespace tenon
