// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::passes {

/// Of what programs read and give.
bool is_real(DType type);

/// What an elementwise node computes, as tenon:Elementwise has it.
struct ElementwiseProgram {
  std::vector<ir::ValueId> inputs;  // without those that are numbers in its lines
  std::vector<std::string> lines;
};

/// The program of an elementwise node on floats; nullopt for others, and where no input that is left has as many axes
/// as the result.
std::optional<ElementwiseProgram> program_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::passes
