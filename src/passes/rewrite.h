// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

/// Small questions and edits that several passes share.
namespace tenon::passes {

/// perm[i] is the axis of the original that stands at place i: shape'[i] = shape[perm[i]].
using Perm = std::vector<int64_t>;

bool is_identity(const Perm& perm);
Perm inverse(const Perm& perm);
/// The last two of so many axes change places.
Perm swapped(size_t rank);
/// The permutation that first applies `first`, then `second`.
Perm compose(const Perm& first, const Perm& second);
Tensor permuted(const Tensor& tensor, const Perm& perm);
ir::Shape permuted(const ir::Shape& shape, const Perm& perm);
/// Whether the permutation leaves the order of all axes of more than one element.
bool moves_only_ones(const ir::Shape& shape, const Perm& perm);

/// The producer of a value when it is this op and nothing else uses the value; nullptr otherwise.
const ir::Node* sole(const ir::Graph& graph, ir::ValueId id, const char* op);
/// The producer of a value when it is this op.
const ir::Node* made_by(const ir::Graph& graph, ir::ValueId id, const char* op);
/// The value behind reshapes and expansions that only add or drop axes of one element.
ir::ValueId behind_ones(const ir::Graph& graph, ir::ValueId id);
const ir::Shape* shape_of(const ir::Graph& graph, ir::ValueId id);
std::optional<size_t> rank_of(const ir::Graph& graph, ir::ValueId id);
bool same_shape(const ir::Graph& graph, ir::ValueId a, ir::ValueId b);
/// The number in a constant of one element of a floating or integer type.
std::optional<double> scalar(const ir::Graph& graph, ir::ValueId id);
/// Whether a value is a constant of one element near `number` (relative 1e-4).
bool is_scalar(const ir::Graph& graph, ir::ValueId id, double number);
/// Whether a value is a constant of one element of that type.
bool is_one(const ir::Graph& graph, ir::ValueId id, DType dtype);
/// Whether inputs 1 and 2 of a QuantizeLinear or DequantizeLinear are one scale above 0 and one zero point of type
/// `bytes`, which is 0 where they are FP8.
bool has_one_scale(const ir::Graph& graph, const ir::Node& node, DType bytes);
/// Integers of a constant of type i32 or i64.
std::optional<std::vector<int64_t>> integers(const ir::Graph& graph, ir::ValueId id);
/// A constant, or what a DequantizeLinear makes of constants.
std::optional<Tensor> numbers_of(const ir::Graph& graph, ir::ValueId id);
/// The sizes of a value that is known to have elements; nothing where one is not constant.
std::optional<std::vector<int64_t>> sizes_of(const ir::Graph& graph, ir::ValueId value);
ir::ValueId constant(ir::Graph& graph, const std::string& name, const std::vector<int64_t>& values);
ir::ValueId constant(ir::Graph& graph, const std::string& name, const Dims& dims, const std::vector<float>& values);
std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second);
/// Whether a node gives numbers of its first input alone, wherever it puts them.
bool moves_one(const ir::Node& node);
/// Whether the op maps elements one by one, broadcasting its inputs.
bool is_elementwise(const ir::Node& node);
/// Whether none of these is infinite or no number.
bool is_finite(std::span<const float> numbers);
/// Whether two runs of the op on the same inputs may differ.
bool is_random(const ir::Node& node);
bool has_subgraph(const ir::Node& node);
/// Axis counted from the front; nullopt when outside the rank.
std::optional<size_t> axis_of(int64_t axis, size_t rank);

/// A target of Reshape, as a constant, that gives `to` for an input of shape `from`: numbers, 0 for kept sizes, one -1.
/// nullopt when more than one size of `to` is unknown.
std::optional<std::vector<int64_t>> reshape_target(const ir::Shape& from, const ir::Shape& to);

/// For each size of `from` the number of sizes of `to` that it is split into; empty where a reshape does more.
std::vector<size_t> split_counts(const ir::Shape& from, const ir::Shape& to);

/// Calls `visit` on every live node that is there now; true when any call returned true.
bool each_node(ir::Graph& graph, const std::function<bool(ir::NodeId)>& visit);
/// Turns outputs whose elements inference knows into constants, and the target of a Reshape into one with a -1; true
/// when it did.
bool fold_shape(ir::Graph& graph, ir::NodeId node);
/// Makes a value stand for a node's first output, gives it that type where it has none, and removes the node.
void replace(ir::Graph& graph, ir::NodeId node, ir::ValueId with);

}  // namespace tenon::passes
