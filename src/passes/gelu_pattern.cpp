// SPDX-License-Identifier: Apache-2.0
#include "passes/gelu_pattern.h"

#include <array>
#include <bit>
#include <cmath>

#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int degrees = 4;  // of x: 0 to 3
constexpr int depth = 6;    // of nodes within each other

/// The sum of at[i][j] x^i g^j.
struct Polynomial {
  std::array<std::array<double, 2>, degrees> at{};

  bool is(const Polynomial& other, double tolerance) const {
    for (int i = 0; i < degrees; ++i)
      for (int j = 0; j < 2; ++j)
        if (!(std::abs(at[i][j] - other.at[i][j]) <= tolerance * std::abs(other.at[i][j]))) return false;
    return true;
  }
};

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (int i = 0; i < degrees; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < degrees; ++k)
        for (int l = 0; l < 2; ++l) {
          const double term = a.at[i][j] * b.at[k][l];
          if (term == 0) continue;
          if (i + k >= degrees || j + l > 1) return std::nullopt;
          result.at[i + k][j + l] += term;
        }
  return result;
}

/// Nodes as a polynomial of x and of the gate g.
class Reader {
 public:
  Reader(const ir::Graph& graph, ir::ValueId x, ir::ValueId gate) : graph_(graph), x_(x), gate_(gate) {}

  std::optional<Polynomial> of(const ir::Node& node, int left = depth) {
    const bool power = node.op == "Pow", quotient = node.op == "Div";
    if (node.op != "Mul" && node.op != "Add" && node.op != "Sub" && !power && !quotient) return std::nullopt;
    const auto a = of(node.inputs[0], left - 1), b = a ? of(node.inputs[1], left - 1) : std::nullopt;
    if (!b) return std::nullopt;
    origins = joined(node.origins, origins);
    if (node.op == "Mul") return product(*a, *b);
    const auto number = scalar(graph_, node.inputs[1]);
    if ((power || quotient) && !number) return std::nullopt;
    if (quotient) return product(*a, constant(1 / *number));
    if (power) {
      const auto square = product(*a, *a);
      if (*number == 2) return square;
      return *number == 3 && square ? product(*square, *a) : std::nullopt;
    }
    Polynomial sum = *a;
    for (int i = 0; i < degrees; ++i)
      for (int j = 0; j < 2; ++j) sum.at[i][j] += (node.op == "Sub" ? -1 : 1) * b->at[i][j];
    return sum;
  }

  /// How far two rounded constants may lie from what they stand for: as in files of f16 and bf16, which these come from
  /// where all have so few digits.
  double tolerance() const { return digits_ & 0x1fff ? 1e-4 : digits_ & 0xffff ? 1e-3 : 4e-3; }

  std::vector<std::string> origins;

 private:
  static Polynomial constant(double number) {
    Polynomial result;
    result.at[0][0] = number;
    return result;
  }
  std::optional<Polynomial> of(ir::ValueId value, int left) {
    Polynomial result;
    if (value == x_) return result.at[1][0] = 1, result;
    if (value == gate_) return result.at[0][1] = 1, result;
    if (const auto number = scalar(graph_, value)) {
      digits_ |= std::bit_cast<uint32_t>(static_cast<float>(*number));
      return constant(*number);
    }
    const ir::Node* node = left > 0 && graph_.only_user(value) != ir::no_node ? graph_.producer(value) : nullptr;
    // A square by itself uses its value twice.
    return node ? of(*node, left) : std::nullopt;
  }

  const ir::Graph& graph_;
  ir::ValueId x_, gate_;
  uint32_t digits_ = 0;  // those of all constants, as floats
};

/// The one Erf or Tanh among what feeds a node through sums and products; the others are where x may be.
const ir::Node* gate_of(const ir::Graph& graph, const ir::Node& node, int left, std::vector<ir::ValueId>& others) {
  const ir::Node* found = nullptr;
  for (const ir::ValueId input : node.inputs) {
    if (input == ir::no_value || graph.constant(input)) continue;
    others.push_back(input);
    const ir::Node* from = graph.producer(input);
    if (!from || found) continue;
    if (from->op == "Erf" || from->op == "Tanh") found = from;
    else if (left > 0 && (from->op == "Mul" || from->op == "Add" || from->op == "Div"))
      found = gate_of(graph, *from, left - 1, others);
  }
  return found;
}

}  // namespace

std::optional<GeluPattern> find_gelu(const ir::Graph& graph, const ir::Node& last) {
  if (last.op != "Mul" && last.op != "Div") return std::nullopt;
  std::vector<ir::ValueId> others;
  const ir::Node* gate = gate_of(graph, last, 3, others);
  if (!gate || graph.only_user(gate->outputs[0]) == ir::no_node) return std::nullopt;
  const ir::Node* inner = graph.producer(gate->inputs[0]);
  if (!inner || graph.only_user(gate->inputs[0]) == ir::no_node) return std::nullopt;
  const bool erf = gate->op == "Erf";
  const double scale = std::sqrt(2 / M_PI);
  Polynomial argument, whole;
  argument.at[1][0] = erf ? std::sqrt(0.5) : scale;
  argument.at[3][0] = erf ? 0 : scale * 0.044715;
  whole.at[1] = {0.5, 0.5};
  for (const ir::ValueId x : others) {
    if (x == gate->outputs[0]) continue;
    Reader inside(graph, x, ir::no_value), outside(graph, x, gate->outputs[0]);
    const auto read = inside.of(*inner);
    if (!read || !read->is(argument, inside.tolerance())) continue;
    const auto result = outside.of(last);
    if (!result || !result->is(whole, outside.tolerance())) continue;
    return GeluPattern{x, erf ? "none" : "tanh", joined(joined(inside.origins, gate->origins), outside.origins)};
  }
  return std::nullopt;
}

}  // namespace tenon::passes
