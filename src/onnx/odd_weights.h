// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "ir/graph.h"

namespace tenon::onnx {

/// One sentence that names the constants which hold NaN or infinite numbers; empty when none does.
std::string odd_weights(const ir::Graph& graph);

}  // namespace tenon::onnx
