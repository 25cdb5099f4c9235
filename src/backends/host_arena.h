// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "backends/executable.h"

namespace tenon::backends {

/// Memory of the process that executables of one session work in by turns: it grows to what the largest takes, and
/// those that were there keep what they had.
struct HostArena : Arena {
  std::shared_ptr<std::byte> memory;
  size_t bytes = 0;
};

}  // namespace tenon::backends
