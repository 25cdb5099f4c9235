// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace tenon::ops {

/// The place along an axis of `size` elements that Pad reads for place `at` of the unpadded axis, which may lie
/// outside; -1 where the constant goes. Modes other than constant need a size above 0.
inline int64_t pad_source(const std::string& mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "constant") return -1;
  if (mode == "edge") return at < 0 ? 0 : size - 1;
  if (mode == "wrap") return (at % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), turned = (at % period + period) % period;
  return turned < size ? turned : period - turned;
}

}  // namespace tenon::ops
