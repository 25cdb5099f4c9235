// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/problem.h"
#include "ir/graph.h"

/// What a backend is given to run: steps in order, and where their operands lie.
namespace tenon::backends {

/// Where a value lies: an offset into a storage, with strides in elements.
struct Place {
  int storage = -1;    // index into Layout::storages; -1: a graph input or a constant
  int64_t offset = 0;  // elements
  Dims dims, strides;
};

struct Storage {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps between which it is in use, inclusive
  int64_t offset = 0;       // bytes into the arena
};

struct Layout {
  std::vector<Place> places;  // per value
  std::vector<Storage> storages;
  std::vector<char> runs;  // per node: 0 when views make it free
  int64_t arena_bytes = 0, lower_bound = 0;
};

struct Schedule;
/// The tactic of a group whose members run as steps of their own.
inline constexpr const char* unfused = "unfused";

struct ScheduledStep {
  std::vector<ir::NodeId> nodes;  // several where one kernel runs them, in order
  std::vector<Problem> problems;  // of each
  std::string key;                // of its record
  std::string tactic;             // of the device; "" where none takes it
  struct OnHost {
    Problem problem;
    std::string tactic;
  };
  std::optional<OnHost> host = {};  // where no tactic of the device takes it
  /// Of a node that runs its bodies: each as a schedule, in the order of ops::bodies_of.
  std::shared_ptr<const std::vector<Schedule>> blocks = {};
};

/// A graph with concrete sizes and how it runs on a device. Problems refer to the graph's nodes.
struct Schedule {
  Device device;
  int threads = 1;
  ir::Graph graph;
  Layout layout;
  std::vector<ScheduledStep> steps;
  bool concurrent = false;  // steps that need nothing of each other may run at the same time
  Schedule() = default;
  Schedule(Schedule&&) = default;
  Schedule& operator=(Schedule&&) = default;
};

}  // namespace tenon::backends
