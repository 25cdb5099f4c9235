// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "ir/graph.h"

namespace tenon::ops {

/// Gates of a cell of tenon:Recurrence, in the order of the standard: 4 of an LSTM, 3 of a GRU whose reset gate comes
/// behind the product, 1 of a plain one with tanh.
inline int64_t gates_of_cell(const ir::Node& node) {
  const auto cell = node.text("cell", "LSTM");
  return cell == "LSTM" ? 4 : cell == "GRU" ? 3 : 1;
}

}  // namespace tenon::ops
