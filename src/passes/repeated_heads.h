// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "passes/rewrite.h"

/// Keys and values that were repeated for all heads of the queries.
namespace tenon::passes {

/// Heads [b, g, n, d] of which each was repeated for several of [b, g * times, n, d].
struct Repeated {
  int64_t times = 1;
  ir::ValueId heads = ir::no_value;  // [b, g, 1, n, d]
  std::vector<std::string> origins;
};
/// Times 1 where a value is nothing of the kind.
Repeated repeated(const ir::Graph& graph, ir::ValueId value);

/// What five axes were transposed from; itself and in order where they were not.
struct Untransposed {
  ir::ValueId value;
  Perm perm;
};
Untransposed untransposed_of(const ir::Graph& graph, ir::ValueId value);

/// The shape of a value less one axis.
ir::Shape without(const ir::Graph& graph, ir::ValueId value, int64_t axis);
/// The target of a Reshape that takes one of five axes, of one element, out; nothing where free sizes leave none.
std::optional<std::vector<int64_t>> target_without(const ir::Graph& graph, ir::ValueId value, int64_t axis);

}  // namespace tenon::passes
