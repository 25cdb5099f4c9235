// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/evidence.h"

namespace tenon::quant {

/// An interval of real values.
struct Range {
  float low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

/// Eight bits for a whole tensor: x is stored as clamp(round(x / scale) + zero, 0, 255), halves to even.
struct Quantiser {
  float scale = 1;
  int zero = 0;  ///< 0..255

  /// The grid that holds the range widened to hold 0, whose 0 is exact. A range of nothing has scale 1.
  static Quantiser of(Range range) {
    const double low = std::min(range.low, 0.f), high = std::max(range.high, 0.f);
    Quantiser q;
    q.scale = static_cast<float>((high - low) / 255);
    if (!(q.scale > 1e-30f)) return {};
    q.zero = static_cast<int>(std::clamp(std::nearbyint(-low / q.scale), 0.0, 255.0));
    return q;
  }
  Range range() const { return {-static_cast<float>(zero) * scale, static_cast<float>(255 - zero) * scale}; }
  /// x as it is after being stored.
  float round(float x) const {
    const float grid = std::nearbyint(x / scale) + static_cast<float>(zero);
    return (std::clamp(grid, 0.f, 255.f) - static_cast<float>(zero)) * scale;
  }
  bool operator==(const Quantiser&) const = default;
};

/// The weights of an anchor: one symmetric scale for each output channel, -127..127.
struct WeightQuantiser {
  std::vector<float> scales;
  std::vector<float> bias;  ///< replaces the node's bias; empty: as it is
  bool paired = false;      ///< neighbours fit 16 bits together; see store_row
  std::vector<int8_t> changes = {};  ///< to what store_row gives, row after row; empty: none
};

/// By the name of a value: for each entry of its last axis, what it is divided by before it is stored.
using Factors = std::map<std::string, std::vector<float>>;

/// How a graph is to be quantised; names are those of the optimised graph.
struct Recipe {
  std::map<std::string, Quantiser> values;
  Factors factors;                                 ///< of some of the values; readers' weights are multiplied by them
  std::map<std::string, WeightQuantiser> anchors;  ///< by the name of the node's first output
  std::map<std::string, std::string> kept;         ///< anchors left in floating point, with the reason
  std::set<std::string> pinned;                    ///< anchors that stay in INT8 whatever their time
  double error = 0;                                ///< at the outputs, on the probes (output_error)
  plan::Evidence evidence;
};

/// The recipe with these anchors in floating point, for the reasons given; values that only they read are not quantised
/// any more. `graph` is the optimised graph that the recipe is for.
Recipe without(const ir::Graph& graph, const Recipe& recipe, const std::map<std::string, std::string>& reasons);

}  // namespace tenon::quant
