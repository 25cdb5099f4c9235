// SPDX-License-Identifier: Apache-2.0
#include "plan/bind.h"

#include <algorithm>
#include <utility>

#include "backends/backend.h"
#include "ops/control_flow.h"
#include "plan/rest.h"

namespace tenon::plan {

Shared::Entry& Shared::entry(const Plan& plan, size_t profile, const Shapes& shapes) {
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(profile); known != entries_.end()) return known->second;
  Entry entry;
  const bool is_made = profile < plan.steps.size() && plan.steps[profile].maker == maker_of(plan.device);
  const Shapes& best = !plan.profiles.empty()                 ? plan.profiles[profile].opt
                       : is_made || covers(plan, plan.shapes) ? plan.shapes
                                                              : shapes;
  entry.shapes = sizes_of(plan, best);
  Planned part = planned(concretise(plan.graph, best), plan);
  if (is_made) entry.steps = plan.steps[profile];
  else if (part.graph) entry.steps = make_steps(plan, *part.graph);
  Entry& kept = entries_.emplace(profile, std::move(entry)).first->second;
  try {
    if (part.graph) kept.block = block_of(plan, kept.steps, std::move(*part.graph), true);
  } catch (...) {
    entries_.erase(profile);
    throw;
  }
  kept.whole = std::move(part.whole), kept.rest = std::move(part.rest);
  if (kept.rest) kept.parts = rest_of(plan, *kept.rest, kept.steps.rest, weights_);
  return kept;
}

const backends::ScheduledSteps& Shared::scheduled(const Plan& plan, Entry& entry, int threads) {
  const std::lock_guard lock(mutex_);
  const auto known = entry.scheduled.find(threads);
  if (known != entry.scheduled.end()) return known->second;
  backends::ScheduledSteps steps = plan::bind(plan, *entry.block, entry.block->layout, threads).steps;
  if (backends::backend(plan.device).capabilities(plan.device).host_memory)
    for (backends::ScheduledStep& step : steps.own()) step.problem.weights = weights_.get();
  return entry.scheduled.emplace(threads, std::move(steps)).first->second;
}

std::optional<backends::Schedule> Shared::evaluated(const Plan& plan, Entry& entry, const Shapes& shapes, int threads) {
  const backends::Capabilities can = backends::backend(plan.device).capabilities(plan.device);
  if (!entry.block || entry.whole || !can.host_memory || entry.shapes == shapes) return std::nullopt;
  const Block& block = *entry.block;
  {
    const std::lock_guard lock(mutex_);
    // Bodies of nodes are scheduled for the sizes that they are inferred with.
    const auto has_bodies = [](const ir::Node& node) { return !ops::bodies_of(node).empty(); };
    if (!entry.was_asked && std::none_of(block.graph->nodes.begin(), block.graph->nodes.end(), has_bodies))
      entry.sizes = Sizes::of(plan.graph, block.graph, block.layout);
    entry.was_asked = true;
  }
  std::vector<Dims> sizes;
  Decided decided;
  if (!entry.sizes || !entry.sizes->evaluate(shapes, sizes, decided)) return std::nullopt;
  const LayoutRequest request{*block.graph,           block.facts,           decided, block.concurrent, true,
                              &entry.steps.placement, &block.layout.storages};
  Layout layout = lay_out(request, sizes);
  return plan::bind(plan, block, std::move(layout), threads, std::move(decided), &scheduled(plan, entry, threads));
}

Bound Shared::bind(const Plan& plan, const Shapes& shapes, int threads) {
  const size_t profile = profile_for(plan, shapes);
  Entry& known = entry(plan, profile, shapes);
  Bound bound;
  if (auto schedule = evaluated(plan, known, shapes, threads)) {
    bound.schedule.emplace(std::move(*schedule));
  } else if (known.shapes == sizes_of(plan, shapes)) {
    bound.whole = known.whole, bound.rest = known.rest, bound.parts = known.parts;
    if (known.block)
      bound.schedule.emplace(
          plan::bind(plan, *known.block, known.block->layout, threads, {}, &scheduled(plan, known, threads)));
  } else {
    Planned part = planned(concretise(plan.graph, shapes), plan);
    if (part.graph) {
      Block block = block_of(plan, known.steps, std::move(*part.graph), false);
      Layout layout = std::move(block.layout);
      bound.schedule.emplace(plan::bind(plan, block, std::move(layout), threads));
    }
    bound.whole = std::move(part.whole), bound.rest = std::move(part.rest);
    if (bound.rest) bound.parts = rest_of(plan, *bound.rest, known.steps.rest, weights_);
  }
  if (bound.schedule) bound.schedule->weights = weights_;
  return bound;
}

}  // namespace tenon::plan
