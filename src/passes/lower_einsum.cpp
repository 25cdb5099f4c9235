// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t least_rows = 4;  // of a matrix, for which tiles are not mostly empty

/// "ab,bc->ac" of two operands without repeated labels or "..."; false otherwise.
bool read_equation(std::string text, std::string (&terms)[2], std::string& output) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
  terms[0] = text.substr(0, comma);
  terms[1] = text.substr(comma + 1, arrow - comma - 1);
  output = text.substr(arrow + 2);
  for (const std::string& term : {terms[0], terms[1], output}) {
    std::string sorted = term;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
    if (!std::all_of(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c); })) return false;
  }
  return true;
}

bool has(const std::string& term, char label) { return term.find(label) != std::string::npos; }

/// Rows before the batch, in operand and output alike, that stay there: all matrices of a batch are for each of them,
/// and what lies between is transposed less or not at all. Empty where nothing is to be transposed without that.
std::string rows_around(const std::string& term, const std::string& output, const std::string& batch,
                        const std::string& rows, const std::string& sum) {
  if (batch.empty() || rows.size() < 2 || term == batch + rows + sum) return "";
  size_t count = 0;
  while (count + 1 < rows.size() && term[count] == rows[count] && output[count] == rows[count]) ++count;
  return rows.substr(0, count);
}

/// Labels of a product, in the output's order, so that its last transpose is often none.
struct Labels {
  std::string batch, rows, columns, sum;
};

std::optional<Labels> labels_of(const std::string (&terms)[2], const std::string& output) {
  Labels labels;
  for (char label : output)
    (has(terms[0], label) && has(terms[1], label) ? labels.batch
     : has(terms[0], label)                       ? labels.rows
                                                  : labels.columns) += label;
  for (char label : terms[0])
    if (!has(output, label)) labels.sum += label;
  if (labels.sum.empty()) return std::nullopt;
  for (char label : labels.sum)
    if (!has(terms[1], label)) return std::nullopt;
  for (char label : terms[1])
    if (!has(output, label) && !has(terms[0], label)) return std::nullopt;
  for (char label : labels.columns)
    if (!has(terms[1], label)) return std::nullopt;
  return labels;
}

ir::ValueId ordered(ir::Graph& graph, const ir::Node& node, ir::ValueId value, const std::string& from,
                    const std::string& to) {
  if (from == to) return value;
  std::vector<int64_t> perm;
  for (char label : to) perm.push_back(static_cast<int64_t>(from.find(label)));
  return graph.apply("Transpose", {value}, {{"perm", perm}}, node.origins, graph.value(node.outputs[0]).name);
}

/// Of sizes that only a run knows, where no axes are to be joined.
bool lower_unsized(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Einsum" || node.inputs.size() != 2 || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  std::string terms[2], output;
  if (!read_equation(node.text("equation", ""), terms, output)) return false;
  for (size_t k = 0; k < 2; ++k)
    if (rank_of(graph, node.inputs[k]) != terms[k].size()) return false;
  const auto labels = labels_of(terms, output);
  if (!labels || labels->rows.size() != 1 || labels->columns.size() != 1 || labels->sum.size() != 1) return false;
  const auto& [batch, rows, columns, sum] = *labels;
  const ir::ValueId a = ordered(graph, node, node.inputs[0], terms[0], batch + rows + sum);
  const ir::ValueId b = ordered(graph, node, node.inputs[1], terms[1], batch + sum + columns);
  const ir::ValueId product = graph.apply("MatMul", {a, b}, {}, node.origins, graph.value(node.outputs[0]).name);
  replace(graph, id, ordered(graph, node, product, batch + rows + columns, output));
  return true;
}

/// A sum over shared labels is a product: operands as [batch, rows, sum] and [batch, sum, columns], or as matrices.
bool lower_einsum_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Einsum" || node.inputs.size() != 2 || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  std::string terms[2], output;
  if (!read_equation(node.text("equation", ""), terms, output)) return false;
  int64_t size_of_label[256];
  std::fill(std::begin(size_of_label), std::end(size_of_label), -1);
  for (size_t k = 0; k < 2; ++k) {
    const ir::Shape* shape = shape_of(graph, node.inputs[k]);
    if (!shape || shape->size() != terms[k].size()) return false;
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      const auto label = static_cast<unsigned char>(terms[k][axis]);
      if (!(*shape)[axis].is_constant() || (*shape)[axis] == ir::Dim(0) ||  // which a Reshape would copy
          (size_of_label[label] >= 0 && size_of_label[label] != (*shape)[axis].value()))
        return false;
      size_of_label[label] = (*shape)[axis].value();
    }
  }
  const auto labels = labels_of(terms, output);
  if (!labels) return false;
  auto [batch, rows, columns, sum] = *labels;

  const std::string name = graph.value(node.outputs[0]).name;
  const auto product = [&](const std::string& labels) {
    int64_t result = 1;
    for (char label : labels) result *= size_of_label[static_cast<unsigned char>(label)];
    return result;
  };
  const auto reshaped = [&](ir::ValueId value, const std::vector<int64_t>& sizes) {
    return graph.apply("Reshape", {value, constant(graph, name + ".shape", sizes)}, {}, node.origins, name);
  };
  std::string outer = rows_around(terms[0], output, batch, rows, sum);
  if (product(rows.substr(outer.size())) < least_rows) outer.clear();
  rows.erase(0, outer.size());
  std::vector<int64_t> of_rows{product(rows), product(sum)}, of_columns{product(sum), product(columns)};
  if (!batch.empty()) {
    of_rows.insert(of_rows.begin(), product(batch));
    of_columns.insert(of_columns.begin(), product(batch));
  }
  if (!outer.empty()) of_rows.insert(of_rows.begin(), product(outer));
  const ir::ValueId a = reshaped(ordered(graph, node, node.inputs[0], terms[0], outer + batch + rows + sum), of_rows);
  const ir::ValueId b = reshaped(ordered(graph, node, node.inputs[1], terms[1], batch + sum + columns), of_columns);
  ir::ValueId result = graph.apply("MatMul", {a, b}, {}, node.origins, name);
  const std::string natural = outer + batch + rows + columns;
  std::vector<int64_t> sizes;
  for (char label : natural) sizes.push_back(size_of_label[static_cast<unsigned char>(label)]);
  replace(graph, id, ordered(graph, node, reshaped(result, sizes), natural, output));
  return true;
}

}  // namespace

bool lower_einsum(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower_einsum_at(graph, id) || lower_unsized(graph, id); });
}

}  // namespace tenon::passes
