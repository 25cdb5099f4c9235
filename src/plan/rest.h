// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "plan/bind.h"

/// What stands behind sizes that data decides, in parts that run one behind the other.
namespace tenon::plan {

/// A plan of its own, for the host, and what its sessions share.
struct RestPlan {
  Plan plan;
  Shared shared = {};
};

/// Of the nodes of the rest those that say sizes, which run one by one, or those between two of them. Values pass from
/// part to part in slots.
struct RestPart {
  ir::Graph graph;
  std::vector<size_t> takes, gives;  // slots of its inputs and outputs
  /// Where all its sizes are functions of those of its inputs: its steps are bound to them as all others.
  std::unique_ptr<RestPlan> planned = {};
};

struct Rest {
  std::vector<RestPart> parts;
  std::vector<size_t> inputs, outputs;  // slots
  size_t slots = 0;
};

/// The rest of a concrete graph. `steps` are those of its planned parts, in order, where they were made; packed weights
/// are shared through `weights`.
std::shared_ptr<const Rest> rest_of(const Plan& plan, const ir::Graph& rest, const std::vector<Steps>& steps,
                                    std::shared_ptr<backends::WeightCache> weights);
/// The steps of its planned parts.
std::vector<Steps> make_rest_steps(const Plan& plan, const ir::Graph& rest);

}  // namespace tenon::plan
