// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/graph.h"
#include "ops/op.h"

/// What kernels of convolutions and products take along; see fuse_epilogue.cpp.
namespace tenon::passes {

/// The activation that a node is, if those kernels know it.
std::optional<ops::Formula> activation_of(const ir::Graph& graph, const ir::Node& node);
/// Whether a node's kernels take an activation and a sum along, and it has neither yet.
bool takes_epilogue(const ir::Graph& graph, const ir::Node& node);

/// Takes a scale or a shift by channel behind a convolution's ReLU into its weights, bias and activation; false where
/// the user is none, or does more.
bool take_affine(ir::Graph& graph, ir::NodeId id, ir::NodeId user);

}  // namespace tenon::passes
