#pragma once
#include <tenon/judge.h>
#include <tenon/tenon.h>

#include <optional>

#include "quant/pace.h"

namespace tenon::quant {

/// What a search for the best engine within a drop works with.
struct Contest {
  const ir::Graph& graph;  ///< the optimised graph
  const Recipe& recipe;    ///< with everything in eight bits that may be
  double limit;            ///< points that may be lost
  Objective objective;
  /// The plan of a recipe of this graph; times of 0 where nothing is measured.
  std::function<Pace(const Recipe&)> make;
  std::function<Score(const plan::Plan&)> score;
};

/// The best plan found that is better than the floating point one and loses no more than the limit; nothing where there
/// is none. Layers stay in eight bits that save most (Pace::saved) for the harm they do alone, as long as all of it is
/// no more than an allowance: bisection finds the one that keeps the limit, with at most seven calls of `score`. The
/// last point that `search` has is the floating point plan, and it gets the others.
std::optional<Pace> choose(const Contest& contest, plan::Search& search);

/// A quantised plan that is to be small: it saves bytes of weights, and no time is known.
Pace by_size(const ir::Graph& graph, const Recipe& recipe, plan::Plan quantised);

}  // namespace tenon::quant
