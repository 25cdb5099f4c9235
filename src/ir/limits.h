// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace tenon::ir {

/// Characters of one symbolic size in the text of a graph.
constexpr size_t max_dim_text = 1024;
/// Characters of a symbol's name; of longer ones the last stand for a hash of the whole.
constexpr size_t max_symbol = 128;

}  // namespace tenon::ir
