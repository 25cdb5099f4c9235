// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "compile/value_observer.h"
#include "compile/observe.h"

namespace tenon::compile {

/// How far outputs are from those in floating point: the squared error over the variance, averaged over outputs. Where
/// an output has several axes, each entry of the shortest inner one is a feature with its own variance, so that boxes
/// weigh like scores, and positions count by the fourth power of how far their most uncommon feature is from its mean:
/// a detector's objects rather than its background. 0 is equal, 1 as bad as a constant.
double output_error(const std::vector<Tensor>& exact, const std::vector<Tensor>& rounded);

/// Tries recipes on the probes in floating point arithmetic with rounding, which gives what the integer graph gives but
/// for the last bits of sums.
class RecipeCandidates {
 public:
  /// All must outlive it. Weights are those of `graph`, rounded where `recipe` says so.
  RecipeCandidates(const ir::Graph& graph, const quant::Recipe& recipe, const quant::Observations& seen,
                   const Shapes& shapes, ThreadPool& thread_pool, const plan::Records& records);
  /// Quantisers to apply from now on; values that are absent stay exact. A null map is none.
  /// On at most 16 probes.
  double error(const std::map<std::string, quant::Quantiser>& values);
  /// The same over so many of the probes, spread evenly.
  double error(const std::map<std::string, quant::Quantiser>& values, size_t probes);

 private:
  const quant::Observations& seen_;
  quant::Factors factors_;
  std::unique_ptr<ValueObserver> observer_;
};

}  // namespace tenon::compile
