// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/custom_op.h>

#include <string>
#include <vector>

#include "ops/op.h"

/// Ops that plugins add.
namespace tenon::ops {

/// Throws Error(unsupported) where the op cannot be added.
void add_custom_op(const tenon_custom_op& op);
/// nullptr where no plugin has an such op.
const tenon_custom_op* custom_op(const ir::OpId& op);
ir::OpId id_of(const tenon_custom_op& op);

const tenon_op_api& custom_op_api();
/// The node that a plugin's function is called for.
const ir::Node& node_of(const tenon_op_node* node);
/// Throws Error(invalid_model) with the reason that a plugin's function gave, where its result is a failure.
void check_custom_call(const ir::Node& node, int result);
/// Calls a plugin's function for a node.
template <class Call>
void call_custom_op(const ir::Node& node, const Call& call) {
  check_custom_call(node, call(reinterpret_cast<const tenon_op_node*>(&node)));
}

}  // namespace tenon::ops
