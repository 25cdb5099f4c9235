// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "passes/rewrite.h"

namespace tenon::passes {

/// A Resize that weighs neighbours along some axes by numbers that add up to one.
struct Resizing {
  ir::NodeId id;
  ir::ValueId from;
  ir::Shape in, out;
  double share;  // elements of the input for each of the output, in most runs
};

/// Whether others may read the value, too.
enum class Readers : uint8_t { one, several };
/// The Resize that makes a value; where it has one reader, that is no output of the graph. None where nothing is known
/// of its sizes.
std::optional<Resizing> resizing_of(const ir::Graph& graph, ir::ValueId value, Readers readers = Readers::one);
/// The same Resize of another value, of a value's axes in the order `perm`, with `last` elements along the last axis.
ir::ValueId resized(ir::Graph& graph, const Resizing& resizing, ir::ValueId from, const Perm& perm, const ir::Dim& last,
                    const std::vector<std::string>& origins);

}  // namespace tenon::passes
