// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::passes {

/// The steps that 16 bits stand for: `low` and the 65535 behind it, times `scale`.
struct Steps16 {
  float scale, low;
  bool operator==(const Steps16&) const = default;
};

/// The steps of one scale and one zero point of i16 or u16; nullopt where these are none, or where the scale is so far
/// from 1 that numbers may not come back as they were.
std::optional<Steps16> steps_of(const ir::Graph& graph, ir::ValueId scale, ir::ValueId zero);

/// x as it is once it was quantised to 16 bits, by a new node.
ir::ValueId fake_quantize(ir::Graph& graph, ir::ValueId x, const Steps16& steps,
                          const std::vector<std::string>& origins, const std::string& name);

/// What a node rounds to those steps, if it does.
std::optional<Steps16> steps_made_by(const ir::Node& node);

/// Where the numbers of a value are whole steps, as a node with one input made them so, behind others that only move
/// them: these steps.
std::optional<Steps16> steps_of(const ir::Graph& graph, ir::ValueId value);

}  // namespace tenon::passes
