// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "ir/graph.h"

namespace tenon::passes {

/// Transposed convolutions of numbers as convolutions that have an integer form: one for each phase of the rows, whose
/// results, with the phases of the columns as channels, are rows of the image already. Where `wanted` is given, those
/// for one of whose convolutions it says so, by the name of its result. True when there was one.
bool split_deconvolutions(ir::Graph& graph, const std::function<bool(const std::string&)>& wanted);

}  // namespace tenon::passes
