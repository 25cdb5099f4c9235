// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/problem.h"
#include "backends/weight_cache.h"
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
  std::vector<char> runs;           // per node: 0 when views make it free
  std::vector<int> placement = {};  // storages in the order in which they were given offsets
  int64_t arena_bytes = 0, lower_bound = 0;
};

struct Schedule;
/// The tactic of a group whose members run as steps of their own.
inline constexpr const char* unfused = "unfused";

struct ScheduledStep {
  ir::NodeId node = 0;
  Problem problem;          // at the sizes that it was made for: see Schedule::problem
  std::string key = {};     // of its record
  std::string tactic = {};  // of the device; "" where none takes it
  struct OnHost {
    Problem problem;
    std::string tactic;
  };
  std::optional<OnHost> host = {};  // where no tactic of the device takes it
  /// Of a node that runs its bodies: each as a schedule, in the order of ops::bodies_of.
  std::shared_ptr<const std::vector<Schedule>> blocks = {};
};

/// The steps of a schedule, in order. Copies share them, whatever their sizes, until one of them changes its own.
class ScheduledSteps {
 public:
  ScheduledSteps() : ScheduledSteps(std::vector<ScheduledStep>()) {}
  explicit ScheduledSteps(std::vector<ScheduledStep> steps) : held_(std::make_shared<Held>(std::move(steps))) {}
  size_t size() const { return held_->steps.size(); }
  bool empty() const { return held_->steps.empty(); }
  const ScheduledStep& operator[](size_t at) const { return held_->steps[at]; }
  auto begin() const { return held_->steps.begin(); }
  auto end() const { return held_->steps.end(); }
  bool same_as(const ScheduledSteps& other) const { return held_ == other.held_; }
  /// To be changed: no others' from here on. Nobody may copy or drop one of them meanwhile.
  std::vector<ScheduledStep>& own();

  /// Their problems at the sizes of a schedule that has these steps, one at a time.
  class Sized {
   public:
    explicit Sized(const Schedule& schedule);
    /// Valid until the next one is asked for.
    const Problem& problem(size_t at);

   private:
    const Schedule& schedule_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  /// Problems are large, for the most part by what no size changes. So they are kept to be given other sizes.
  struct Held {
    explicit Held(std::vector<ScheduledStep> of) : steps(std::move(of)) {}
    std::vector<ScheduledStep> steps;
    std::mutex mutex;  // of `sized`
    std::vector<Problem> sized;
  };
  std::shared_ptr<Held> held_;
};

/// How a graph runs on a device with concrete sizes, which stand in the layout: schedules of other sizes may share the
/// graph and the steps. Problems refer to its nodes.
struct Schedule {
  explicit Schedule(std::shared_ptr<const ir::Graph> of) : shared(std::move(of)), graph(*shared) {}
  explicit Schedule(ir::Graph of) : Schedule(std::make_shared<const ir::Graph>(std::move(of))) {}
  Schedule(Schedule&&) = default;

  /// The elements of a value that is known; nullptr for others.
  const Tensor* constant(ir::ValueId value) const {
    for (const auto& [id, tensor] : decided)
      if (id == value) return &tensor;
    return graph.constant(value);
  }

  /// What a step is asked for at these sizes.
  Problem problem(size_t step) const;

  std::shared_ptr<const ir::Graph> shared;
  const ir::Graph& graph;  // the same
  Device device;
  int threads = 1;
  Layout layout;
  std::vector<std::pair<ir::ValueId, Tensor>> decided = {};  // constants that are others for these sizes
  ScheduledSteps steps;
  bool concurrent = false;                         // steps that need nothing of each other may run at the same time
  std::shared_ptr<WeightCache> weights = nullptr;  // of the engine
};

}  // namespace tenon::backends
