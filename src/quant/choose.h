#pragma once
#include <tenon/judge.h>

#include <optional>

#include "quant/pace.h"

namespace tenon::quant {

/// What a search for the fastest engine within a drop works with.
struct Contest {
  const ir::Graph& graph;  ///< the optimised graph
  const Recipe& recipe;    ///< with everything in eight bits that may be
  double limit;            ///< points that may be lost
  /// The plan of a recipe of this graph; times of 0 where nothing is measured.
  std::function<Pace(const Recipe&)> make;
  std::function<Score(const plan::Plan&)> score;
};

/// The fastest plan found that is faster than the floating point one and loses no more than the limit; nothing where
/// there is none. Layers stay in eight bits that save most time for the harm they do alone, as long as all of it is no
/// more than an allowance: bisection finds the one that keeps the limit, with at most seven calls of `score`. The last
/// point that `search` has is the floating point plan, and it gets the others.
std::optional<Pace> choose(const Contest& contest, plan::Search& search);

}  // namespace tenon::quant
