// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "ir/graph.h"

namespace tenon::onnx {

/// One sentence that names the nodes which the model has in training mode: their results are random or depend on the
/// batch. Empty where there is none.
std::string training_nodes(const ir::Graph& graph);

}  // namespace tenon::onnx
