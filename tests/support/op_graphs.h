// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

/// Graphs of one node each, right and wrong, made from the definitions of ops: what fuzzers begin with.
namespace tenon::test {

/// A node of the op with random counts of inputs and outputs, mostly those it takes, small operands of random types and
/// sizes, some of them constant, and random attributes, mostly those it has. Nothing is inferred.
ir::Graph random_graph(const ops::OpDef& op, std::mt19937_64& random);
/// The graph of one node with a fault or two: an operand or an output more or less, another type or shape, an attribute
/// gone or with another value. Nothing is inferred.
ir::Graph damaged_graph(ir::Graph graph, std::mt19937_64& random);
/// The graphs of one node in which one operand is of another size or another type, or absent: what no kernel may trust.
/// Nothing is inferred.
std::vector<ir::Graph> wrong_operands(const ir::Graph& graph, std::mt19937_64& random);
/// Values for the inputs of a graph whose sizes are known.
std::vector<Tensor> random_inputs(const ir::Graph& graph, std::mt19937_64& random);
/// The same graph as an ONNX model, internal ops and attributes included, which the importer must refuse.
std::string onnx_of(const ir::Graph& graph);

}  // namespace tenon::test
