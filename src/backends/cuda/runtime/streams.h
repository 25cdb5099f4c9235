// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "backends/schedule.h"

/// Which steps of a GPU may run beside each other.
namespace tenon::cuda {

/// Bytes that a step reads or writes: runs of `run` bytes, `pitch` apart, within [begin, end). Pitch 0: one run.
struct Footprint {
  uint64_t begin = 0, end = 0, pitch = 0, run = 0;
  bool writes = false;
};

/// The footprint of a value at `place` whose storage begins at `address`.
Footprint footprint(uint64_t address, const backends::Place& place, size_t element_bytes, bool writes);
/// Whether both touch a byte that one of them writes.
bool conflict(const Footprint& a, const Footprint& b);

/// Where a step runs, and the steps of other streams that must have ended before.
struct StreamChoice {
  int stream_at = 0;
  std::vector<size_t> waits = {};
};

/// Lanes of steps that are given in an order in which they may run one after the other. A step follows the last step
/// of a stream_at that it needs, or begins a stream_at of its own; stream_at 0 is that of the first.
std::vector<StreamChoice> choose_streams(const std::vector<std::vector<Footprint>>& steps, int most);

}  // namespace tenon::cuda
