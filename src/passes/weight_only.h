// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

/// Products whose weights alone are integers.
namespace tenon::passes {

/// Makes internal WeightOnlyMatMul nodes of products whose weights alone are integers, one scale for each block of
/// them, for which hosts have kernels.
bool lower_weight_only(ir::Graph& graph);
/// The way back.
bool weight_only_to_f32(ir::Graph& graph);

}  // namespace tenon::passes
