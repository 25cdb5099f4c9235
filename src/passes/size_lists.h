// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "ir/graph.h"

namespace tenon::passes {

/// What a size is in most runs; nullopt where the build was not told.
std::optional<int64_t> usual_size(const ir::Graph& graph, const ir::Dim& dim);

/// The second input of a Reshape that gives `to` for an input of shape `from`: a constant where reshape_target() finds
/// one, otherwise integer nodes that compute the sizes of `to` from those of the graph's inputs. nullopt where a size
/// is no function of these, as what a run finds. Adds nodes and values, so that references to such do not outlive it.
std::optional<ir::ValueId> reshape_list(ir::Graph& graph, const std::string& name, ir::Shape from, ir::Shape to);

/// Whether every size is a number or a function of those of the graph's inputs.
bool has_sizes(const ir::Graph& graph, const ir::Shape& shape);
/// The sizes of such a shape as a list, likewise.
std::optional<ir::ValueId> size_list(ir::Graph& graph, const std::string& name, ir::Shape shape);

}  // namespace tenon::passes
