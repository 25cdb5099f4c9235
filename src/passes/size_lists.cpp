// SPDX-License-Identifier: Apache-2.0
#include "passes/size_lists.h"

#include <algorithm>
#include <map>

#include "ir/dim_program.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// An axis of an input.
struct Given {
  ir::ValueId input;
  int64_t axis;
};

/// The axes that give the symbols of sizes, by their numbers in a program.
std::vector<Given> given_by_inputs(const ir::Graph& graph, ir::DimProgram& program) {
  std::vector<Given> given;
  for (const ir::ValueId input : graph.inputs) {
    const ir::Shape* shape = shape_of(graph, input);
    for (size_t axis = 0; shape && axis < shape->size(); ++axis) {
      const ir::Dim& dim = (*shape)[axis];
      if (dim.is_constant() || !(ir::Dim::symbol(dim.str()) == dim)) continue;
      const auto symbol = static_cast<size_t>(program.symbol(dim.str()));
      if (symbol == given.size()) given.push_back({input, static_cast<int64_t>(axis)});
    }
  }
  return given;
}

/// Lists of one size each, as nodes of a graph.
class SizeNodes {
 public:
  SizeNodes(ir::Graph& graph, const std::string& name)
      : graph_(graph), name_(name), given_(given_by_inputs(graph, program_)) {}

  /// nullopt where the size is no function of those that inputs have.
  std::optional<int> add(const ir::Dim& dim) {
    const int place = program_.add(dim);
    return place == ir::DimProgram::none ? std::nullopt : std::optional(place);
  }

  ir::ValueId node(int64_t place) {
    if (const auto known = nodes_.find(place); known != nodes_.end()) return known->second;
    const auto [kind, left, right] = program_.operations()[static_cast<size_t>(place)];
    using Kind = ir::DimProgram::Kind;
    ir::ValueId result = ir::no_value;
    switch (kind) {
      case Kind::constant: result = number(left); break;
      case Kind::symbol: {
        const auto [input, axis] = given_[static_cast<size_t>(left)];
        result = apply("Shape", {input}, {{"start", axis}, {"end", axis + 1}});
        break;
      }
      case Kind::sum: result = apply("Add", {node(left), node(right)}); break;
      case Kind::difference: result = apply("Sub", {node(left), node(right)}); break;
      case Kind::product: result = apply("Mul", {node(left), node(right)}); break;
      case Kind::floor_quotient: {
        const ir::ValueId divisor = number(right);
        result = node(left);
        // Div truncates; Mod has the sign of the divisor.
        if (!program_.rises(left)) result = apply("Sub", {result, apply("Mod", {result, divisor})});
        result = apply("Div", {result, divisor});
        break;
      }
    }
    return nodes_[place] = result;
  }
  ir::ValueId number(int64_t value) { return constant(graph_, name_, {value}); }
  ir::ValueId list(const std::vector<ir::ValueId>& sizes) {
    return apply("Concat", sizes, {{"axis", int64_t{0}}}, static_cast<int64_t>(sizes.size()));
  }

 private:
  ir::ValueId apply(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {},
                    int64_t count = 1) {
    const ir::ValueId result = graph_.apply(op, std::move(inputs), std::move(attributes), {}, name_);
    graph_.value(result).dtype = DType::i64, graph_.value(result).shape = ir::Shape{count};
    return result;
  }

  ir::Graph& graph_;
  const std::string name_;
  ir::DimProgram program_;
  const std::vector<Given> given_;
  std::map<int64_t, ir::ValueId> nodes_;
};

/// The sizes of `to`, of which those that `kept` marks are zeros.
std::optional<ir::ValueId> list_of(ir::Graph& graph, const std::string& name, const ir::Shape& to,
                                   const std::vector<bool>& kept) {
  SizeNodes nodes(graph, name);
  std::vector<std::optional<int>> places;
  for (size_t at = 0; at < to.size(); ++at) {
    places.push_back(kept[at] ? std::nullopt : nodes.add(to[at]));
    if (!kept[at] && !places.back()) return std::nullopt;
  }
  std::vector<ir::ValueId> sizes;
  for (const auto& place : places) sizes.push_back(place ? nodes.node(*place) : nodes.number(0));
  return nodes.list(sizes);
}

}  // namespace

std::optional<int64_t> usual_size(const ir::Graph& graph, const ir::Dim& dim) {
  ir::DimProgram program;
  std::vector<int64_t> symbols, values;
  for (const auto& [symbol, size] : graph.usual) program.symbol(symbol), symbols.push_back(size);
  const int place = program.add(dim);
  if (place == ir::DimProgram::none || !program.evaluate(symbols, values)) return std::nullopt;
  return values[static_cast<size_t>(place)];
}

std::optional<ir::ValueId> reshape_list(ir::Graph& graph, const std::string& name, ir::Shape from, ir::Shape to) {
  if (const auto target = reshape_target(from, to)) return constant(graph, name, *target);
  std::vector<bool> kept;
  for (size_t at = 0; at < to.size(); ++at) {
    kept.push_back(at < from.size() && from[at] == to[at]);
    // A real size of 0 would read as "keep".
    if (to[at] == ir::Dim(0)) return std::nullopt;
  }
  return list_of(graph, name, to, kept);
}

bool has_sizes(const ir::Graph& graph, const ir::Shape& shape) {
  ir::DimProgram program;
  given_by_inputs(graph, program);
  return std::all_of(shape.begin(), shape.end(),
                     [&](const ir::Dim& dim) { return program.add(dim) != ir::DimProgram::none; });
}

std::optional<ir::ValueId> size_list(ir::Graph& graph, const std::string& name, ir::Shape shape) {
  if (ir::is_constant(shape)) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : shape) sizes.push_back(dim.value());
    return constant(graph, name, sizes);
  }
  return list_of(graph, name, shape, std::vector<bool>(shape.size(), false));
}

}  // namespace tenon::passes
