// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "onnx/convert.h"

/// What several conversions build of standard nodes.
namespace tenon::onnx {

/// Fails the node where one of these inputs is absent, or there are more than `most`.
void want_inputs(const NodeImport& node, std::initializer_list<size_t> needed, size_t most);
/// The node becomes this one, and gives the outputs that are not bound yet.
void become(NodeImport& node, const ir::OpId& op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});

/// 0 keeps a size, one -1 takes the rest.
ir::ValueId reshaped(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& sizes);
ir::ValueId transposed(NodeImport& node, ir::ValueId value, std::vector<int64_t> perm);
/// From `begin` to before `end` of an axis.
ir::ValueId sliced(NodeImport& node, ir::ValueId value, int64_t axis, int64_t begin, int64_t end);
ir::ValueId unsqueezed(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& axes);
/// The size of an axis as a list of one i64.
ir::ValueId size_of(NodeImport& node, ir::ValueId value, int64_t axis);
ir::ValueId cast(NodeImport& node, ir::ValueId value, DType type);
/// The value in the type of `like`.
ir::ValueId cast_like(NodeImport& node, ir::ValueId value, ir::ValueId like);
/// The two added, or the first where there is no second.
ir::ValueId plus(NodeImport& node, ir::ValueId value, ir::ValueId other);
/// [0, 1, ..., count - 1] of i64 for a list of one size.
ir::ValueId count_up(NodeImport& node, ir::ValueId count);

/// Whether the value is made by a product, with which a bias may join.
bool is_product(NodeImport& node, ir::ValueId value);

/// The permutations between channels first and channels last.
std::vector<int64_t> to_channels_last(size_t rank);
std::vector<int64_t> to_channels_first(size_t rank);

/// An activation as ONNX Runtime names it in fused nodes, with its parameters in order; false where there is none such.
bool activate(NodeImport& node, ir::ValueId& value, const std::string& name, const std::vector<float>& parameters);

}  // namespace tenon::onnx
