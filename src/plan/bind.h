// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/compiled_cache.h"
#include "backends/weight_cache.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "plan/sizes.h"

/// From a plan's steps to schedules of concrete sizes. What does not depend on sizes is made once for an engine.
namespace tenon::plan {

/// A graph as the device runs it, and what each of its nodes runs by.
struct Block {
  std::shared_ptr<const ir::Graph> graph;  // of the sizes it was made for
  Layout layout;                           // of these
  std::vector<const StepChoice*> choices;  // by node; null: none was made for it
  LayoutFacts facts;
  bool concurrent = false;
  bool exact = false;  // made for the sizes that its steps were
};

/// The steps over a concrete graph. `exactly`: it is the one that they were made for, and Error(bad_engine) is thrown
/// where they are not its steps; else nodes that have none get one as their sizes come.
Block block_of(const Plan& plan, const Steps& steps, ir::Graph graph, bool exactly);
/// The block for the sizes of a layout. `known`: its steps at other sizes, which it shares where the same nodes run.
backends::Schedule bind(const Plan& plan, const Block& block, Layout layout, int threads, Decided decided = {},
                        const backends::ScheduledSteps* known = nullptr);

struct Rest;

/// A plan for concrete sizes.
struct Bound {
  std::optional<backends::Schedule> schedule;
  std::optional<ir::Graph> whole, rest;    // as Planned has them
  std::shared_ptr<const Rest> parts = {};  // of the rest
};

/// What the sessions of an engine share. A copy begins empty: it is of another engine.
class Shared {
 public:
  Shared() = default;
  Shared(const Shared&) {}
  /// Throws Error(usage) for sizes that the plan is not for.
  Bound bind(const Plan& plan, const Shapes& shapes, int threads);
  const backends::WeightCache& weights() const { return *weights_; }
  /// With the packed weights of others.
  void share(std::shared_ptr<backends::WeightCache> weights) { weights_ = std::move(weights); }

  backends::CompiledCache compiled = {};

 private:
  /// Of a profile, at its best sizes.
  struct Entry {
    Shapes shapes;  // of all inputs
    Steps steps;
    std::optional<Block> block;
    std::optional<ir::Graph> whole, rest;
    std::shared_ptr<const Rest> parts;
    std::map<int, backends::ScheduledSteps> scheduled;  // of the block at its sizes, by threads
    bool was_asked = false;                             // for sizes that are not the best
    std::unique_ptr<const Sizes> sizes;                 // then, where they are functions of the inputs'
  };
  Entry& entry(const Plan& plan, size_t profile, const Shapes& shapes);
  const backends::ScheduledSteps& scheduled(const Plan& plan, Entry& entry, int threads);
  /// The block with other sizes, without inferring the graph anew; nullopt where that takes the long way.
  std::optional<backends::Schedule> evaluated(const Plan& plan, Entry& entry, const Shapes& shapes, int threads);

  std::mutex mutex_;
  std::map<size_t, Entry> entries_;  // by profile
  std::shared_ptr<backends::WeightCache> weights_ = std::make_shared<backends::WeightCache>();
};

}  // namespace tenon::plan
