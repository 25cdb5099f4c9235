// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Ops of com.microsoft that the standard has by now, or nearly has.
namespace tenon::onnx::microsoft_moves {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:ExpandDims", {});
TENON_FORMER("com.microsoft:Trilu", {flag("upper")});
TENON_FORMER("com.microsoft:GatherND", {});
TENON_FORMER("com.microsoft:Unique", {});
TENON_FORMER("com.microsoft:Pad", {text("mode").one_of({"constant", "reflect", "edge"})});
TENON_FORMER("com.microsoft:Range", {});
TENON_FORMER("com.microsoft:CDist", {text("metric").one_of({"euclidean", "sqeuclidean"})});

void expand_dims(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  become(node, "Unsqueeze", {node.input(0), reshaped(node, cast(node, node.input(1), DType::i64), {1})});
}
TENON_IMPORT(expand_dims, "com.microsoft:ExpandDims");

void renamed(NodeImport& node) {
  node.op = std::string(node.op.name());
  node.emit();
}
TENON_IMPORT(renamed, "com.microsoft:Trilu", "com.microsoft:GatherND");

/// Values in the order in which they come first.
void unique(NodeImport& node) {
  want_inputs(node, {0}, 1);
  std::vector<ir::ValueId> made;
  for (const char* part : {"/values", "/first", "/places", "/counts"})
    made.push_back(node.graph().add_value(node.label() + part));
  const ir::ValueId values = made[0], places = made[2], counts = made[3];
  node.graph().add_node("Unique", {node.input(0)}, std::move(made), {{"sorted", int64_t{0}}}, {node.label()});
  node.bind(0, values);
  node.bind(1, places);
  node.bind(2, counts);
}
TENON_IMPORT(unique, "com.microsoft:Unique");

void pad(NodeImport& node) {
  want_inputs(node, {0, 1}, 3);
  std::vector<ir::ValueId> inputs{node.input(0), reshaped(node, node.input(1), {-1})};
  if (node.has(2)) inputs.push_back(reshaped(node, node.input(2), {}));
  become(node, "Pad", inputs, node.attributes);
}
TENON_IMPORT(pad, "com.microsoft:Pad");

void range(NodeImport& node) {
  want_inputs(node, {0, 1}, 3);
  const ir::ValueId step = node.has(2) ? reshaped(node, node.input(2), {}) : node.scalar_like(1, node.input(0));
  become(node, "Range", {reshaped(node, node.input(0), {}), reshaped(node, node.input(1), {}), step});
}
TENON_IMPORT(range, "com.microsoft:Range");

/// Distances of all rows: |a|^2 - 2 a b + |b|^2.
void distances(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  const ir::ValueId a = node.input(0), b = node.input(1);
  const bool root = node.text("metric", "sqeuclidean") == "euclidean";
  const auto squares = [&](ir::ValueId rows) {
    return node.add("ReduceSumSquare", {rows, node.integers({1})}, {{"keepdims", int64_t{1}}});
  };
  const ir::ValueId products = node.add("MatMul", {a, transposed(node, b, {1, 0})});
  const ir::ValueId twice = node.add("Mul", {products, node.scalar_like(-2, products)});
  const ir::ValueId sum = node.add("Add", {node.add("Add", {twice, squares(a)}), transposed(node, squares(b), {1, 0})});
  const ir::ValueId square = node.add("Max", {sum, node.scalar_like(0, sum)});
  node.bind(0, root ? node.add("Sqrt", {square}) : square);
}
TENON_IMPORT(distances, "com.microsoft:CDist");

}  // namespace
}  // namespace tenon::onnx::microsoft_moves
