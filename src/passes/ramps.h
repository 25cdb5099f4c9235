// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

/// Integer tensors whose elements rise evenly along each axis, as the indices of slices do.
namespace tenon::passes {

/// Element [i, j, ...] is start + i * steps[0] + j * steps[1] + ...; the step along an axis of one element is 0.
struct Ramp {
  ir::Dim start;
  std::vector<int64_t> steps;
};

/// The ramp that a value is, from constants, ranges, and what repeats and reshapes them; nullopt where none is proven.
std::optional<Ramp> ramp_of(const ir::Graph& graph, ir::ValueId value);

/// The ramps of the places of tuples along the last axis of a value, each over the axes before it; empty where one of
/// them is none.
std::vector<Ramp> ramps_of_tuples(const ir::Graph& graph, ir::ValueId tuples);

}  // namespace tenon::passes
