// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tenon::backends {

/// What a machine does at most, measured on it with all threads of a run: bytes and multiply-adds of f32 in a
/// microsecond.
struct Limits {
  double memory = 0, cache = 0;  // bytes that are read and written, from memory and from the caches of the cores
  double cache_bytes = 0;        // what these hold
  double products = 0;
  double step = 0;  // microseconds that every step takes
};

}  // namespace tenon::backends
