// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/judge.h>
#include <tenon/tenon.hpp>

#include <optional>
#include <set>

#include "compile/latency_check.h"

namespace tenon::compile {

/// What a search for the best engine within a drop works with.
struct Selection {
  const ir::Graph& graph;       ///< the optimised graph
  const quant::Recipe& recipe;  ///< with everything in INT8 that may be
  double limit;                 ///< points that may be lost
  Objective objective;
  /// The plan of a recipe of this graph, with these anchors in bf16 where they are not in INT8; times of 0 where
  /// nothing is measured.
  std::function<LatencyCheck(const quant::Recipe&, const std::set<std::string>& rounded)> make;
  std::function<Score(const plan::Plan&)> score;
  /// Microseconds that anchors save in bf16; none: they may not be in it. Where they may, a LatencyCheck's float_us is
  /// of the search's first point.
  std::map<std::string, double> rounding = {};
  /// Told how many calls of `make` are likely still to come, before each but the first; may be empty.
  std::function<void(double calls)> expects = {};
};

/// The best plan found that is better than the floating point one and loses no more than the limit; nothing where there
/// is none. Layers stay in INT8 or bf16 that save most (LatencyCheck::saved) for the sensitivity they do alone,
/// as long as all of it is no more than an allowance: bisection finds the one that keeps the limit, with at most seven
/// calls of `score`. The last point that `search` has is the floating point plan, in bf16 where that may be, and it
/// gets the others.
std::optional<LatencyCheck> choose(const Selection& selection, plan::Search& search);

/// A quantised plan that is to be small: it saves bytes of weights, and no time is known.
LatencyCheck by_size(const ir::Graph& graph, const quant::Recipe& recipe, plan::Plan quantised);

}  // namespace tenon::compile
