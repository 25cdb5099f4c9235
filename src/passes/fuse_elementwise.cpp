// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "ops/elementwise_program.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t most_inputs = 8, most_steps = 32;

std::optional<float> number(const ir::Graph& graph, ir::ValueId id) {
  const auto found = scalar(graph, id);
  return found && std::isfinite(*found) ? std::optional<float>(static_cast<float>(*found)) : std::nullopt;
}

std::optional<ops::Formula> formula_of(const ir::Graph& graph, const ir::Node& node) {
  return ops::formula_of(node, [&](size_t at) { return number(graph, node.inputs[at]); });
}

bool reads_bytes(const ir::Graph& graph, const ir::Node& node) {
  return node.op == "DequantizeLinear" && has_one_scale(graph, node, DType::u8);
}
bool gives_bytes(const ir::Graph& graph, const ir::Node& node) {
  return node.op == "QuantizeLinear" && has_one_scale(graph, node, DType::u8) &&
         graph.value(node.inputs[0]).dtype == DType::f32;
}

/// A line of a program with other names for its registers.
template <class F>
std::string renamed(const std::string& line, const F& name_of) {
  std::string text;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size() - 1) + 1;
    const std::string word = line.substr(at, end - at);
    if (word[0] == '%') text += name_of(std::stoul(word.substr(1))) + (word.back() == ' ' ? " " : "");
    else text += word;
    at = end;
  }
  return text;
}

/// Of what trees are made: elementwise nodes, these and programs, or both and scales between bytes and numbers.
enum class Of : uint8_t { nodes, programs, bytes };

class Program {
 public:
  Program(ir::Graph& graph, ir::NodeId root, Of of)
      : graph_(graph), root_(root), of_(of), shape_(*graph.value(graph.node(root).outputs[0]).shape) {}

  bool build() {
    collect(root_);
    if (nodes_.size() < 2) return false;
    size_t rank = 0;
    for (ir::ValueId id : inputs_) rank = std::max(rank, shape_of(graph_, id)->size());
    if (rank != shape_.size()) return false;
    for (size_t at = 0; at < inputs_.size(); ++at) registers_[inputs_[at]] = "%" + std::to_string(at);
    for (ir::NodeId id : nodes_) write(graph_.node(id));
    return of_ != Of::bytes || std::any_of(inputs_.begin(), inputs_.end(),
                                           [&](ir::ValueId id) { return graph_.value(id).dtype == DType::u8; });
  }

  void install() {
    std::vector<std::string> origins;
    for (ir::NodeId id : nodes_) origins = joined(origins, graph_.node(id).origins);
    const ir::Value old = graph_.value(graph_.node(root_).outputs[0]);
    const ir::ValueId result = graph_.apply("tenon:Elementwise", inputs_, {{"program", lines_}}, origins, old.name);
    graph_.value(result).shape = old.shape;
    graph_.value(result).dtype = old.dtype;
    graph_.replace_uses(graph_.node(root_).outputs[0], result);
    // Users stand behind what they use; bytes may be read elsewhere, too.
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      if (graph_.value(graph_.node(*node).outputs[0]).users.empty()) graph_.remove(*node);
  }

  static bool fits(const ir::Graph& graph, const ir::Node& node, Of of) {
    if (node.outputs.size() != 1 || !graph.value(node.outputs[0]).shape) return false;
    if (of == Of::bytes && (reads_bytes(graph, node) || gives_bytes(graph, node)))
      return graph.value(node.inputs[0]).shape.has_value();
    if (!formula_of(graph, node) && !(of != Of::nodes && node.op == "tenon:Elementwise")) return false;
    if (graph.value(node.outputs[0]).dtype != DType::f32) return false;
    for (size_t at = 0; at < node.inputs.size(); ++at) {
      const ir::ValueId id = node.inputs[at];
      if (id == ir::no_value) continue;
      if (graph.value(id).dtype != DType::f32 || !graph.value(id).shape) return false;
    }
    return true;
  }

 private:
  bool is_literal(ir::ValueId id) const { return number(graph_, id) && shape_of(graph_, id)->size() <= shape_.size(); }

  /// An inner node is taken where only this tree reads it, at the full shape. Numbers of bytes are computed wherever
  /// they are read, but not the bytes.
  bool is_inner(ir::ValueId input, ir::NodeId reader) const {
    const ir::NodeId maker = graph_.value(input).producer;
    if (maker == ir::no_node || !fits(graph_, graph_.node(maker), of_)) return false;
    if (started_ >= most_steps || inputs_.size() + 2 >= most_inputs ||
        inputs_.size() + awaited_ + operands_of(graph_.node(maker)) > most_inputs)
      return false;
    if (of_ == Of::bytes && reads_bytes(graph_, graph_.node(maker)))
      return graph_.value(input).shape->size() <= shape_.size();
    const bool is_shared = graph_.only_user(input) != reader ||
                           (reader != root_ && graph_.only_user(graph_.node(reader).outputs[0]) == ir::no_node);
    return !is_shared && *graph_.value(input).shape == shape_;
  }

  size_t operands_of(const ir::Node& node) const {
    return static_cast<size_t>(std::count_if(node.inputs.begin(), node.inputs.end(), [&](ir::ValueId input) {
      return input != ir::no_value && !is_literal(input);
    }));
  }

  /// Producers stand before consumers in nodes_.
  void collect(ir::NodeId id) {
    ++started_;
    const ir::Node& node = graph_.node(id);
    size_t left = operands_of(node);
    awaited_ += left;
    const bool scales = node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
    for (ir::ValueId input : node.inputs) {
      if (input == ir::no_value || is_literal(input)) continue;
      --awaited_, --left;
      const ir::NodeId maker = graph_.value(input).producer;
      if (std::find(nodes_.begin(), nodes_.end(), maker) != nodes_.end()) continue;
      if (is_inner(input, id)) collect(maker);
      else if (std::find(inputs_.begin(), inputs_.end(), input) == inputs_.end()) inputs_.push_back(input);
      if (scales) break;
    }
    awaited_ -= left;
    nodes_.push_back(id);
  }

  void write(const ir::Node& node) {
    if (node.op == "tenon:Elementwise") return splice(node);
    if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear")
      return add(node, std::string(node.op == "QuantizeLinear" ? "quant " : "dequant ") + operand(node.inputs[0]) +
                           " " + ops::program_number(*graph_.constant(node.inputs[1])->data<float>()) + " " +
                           std::to_string(*graph_.constant(node.inputs[2])->data<uint8_t>()));
    const ops::Formula formula = *formula_of(graph_, node);
    std::vector<std::string> operands;
    for (int at = 0; at < ops::expression(formula.id).operands; ++at)
      operands.push_back(operand(node.inputs[static_cast<size_t>(at)]));
    add(node, ops::program_line(formula, operands));
  }
  void add(const ir::Node& node, const std::string& line) {
    registers_[node.outputs[0]] = "%" + std::to_string(inputs_.size() + lines_.size());
    lines_.push_back(line);
  }
  /// The lines of a program, with its registers renamed to those here.
  void splice(const ir::Node& node) {
    std::vector<std::string> names;
    for (ir::ValueId input : node.inputs) names.push_back(operand(input));
    for (const std::string& line : std::get<std::vector<std::string>>(node.attributes.at("program"))) {
      add(node, renamed(line, [&](size_t reg) { return names.at(reg); }));
      names.push_back(registers_[node.outputs[0]]);
    }
  }
  std::string operand(ir::ValueId id) const {
    const auto found = registers_.find(id);
    return found != registers_.end() ? found->second : ops::program_number(*number(graph_, id));
  }

  ir::Graph& graph_;
  ir::NodeId root_;
  Of of_;
  ir::Shape shape_;
  size_t started_ = 0;
  size_t awaited_ = 0;  // operands of nodes that were begun, to be looked at
  std::vector<ir::NodeId> nodes_;
  std::vector<ir::ValueId> inputs_;
  std::map<ir::ValueId, std::string> registers_;
  std::vector<std::string> lines_;
};

bool fuse(ir::Graph& graph, Of of) {
  if (!ops::find("tenon:Elementwise")) return false;
  bool changed = false;
  // From the end, so that each tree is taken from its root.
  for (auto id = static_cast<ir::NodeId>(graph.nodes.size()); id-- > 0;) {
    if (!graph.node(id).alive || !Program::fits(graph, graph.node(id), of)) continue;
    if (of == Of::bytes && !gives_bytes(graph, graph.node(id))) continue;
    Program program(graph, id, of);
    if (!program.build()) continue;
    program.install();
    changed = true;
  }
  return changed;
}

/// The convolution whose result a program of one input reads behind reshapes, and nobody else, where it rounds that to
/// 16 bits at last and the program is worth a table of what it makes of these; no_node otherwise.
ir::NodeId rounds_before(const ir::Graph& graph, const ir::Node& program) {
  constexpr size_t fewest_steps = 4;
  constexpr int64_t fewest_elements = 65536;
  if (program.op != "tenon:Elementwise" || program.inputs.size() != 1) return ir::no_node;
  if (std::get<std::vector<std::string>>(program.attributes.at("program")).size() < fewest_steps) return ir::no_node;
  const auto sizes = sizes_of(graph, program.inputs[0]);
  if (!sizes || std::accumulate(sizes->begin(), sizes->end(), int64_t{1}, std::multiplies<>()) < fewest_elements)
    return ir::no_node;
  ir::ValueId from = program.inputs[0];
  const ir::Node* maker = graph.producer(from);
  for (; maker && maker->op == "Reshape" && graph.only_user(from) != ir::no_node; maker = graph.producer(from))
    from = maker->inputs[0];
  const bool rounds = maker && maker->op == "tenon:Int16Conv" && graph.only_user(from) != ir::no_node &&
                      maker->text("activation", "") == ops::expression(expr::Id::FakeQuantize16).word;
  return rounds ? graph.value(from).producer : ir::no_node;
}

/// Takes that rounding as the first step, as kernels find results of such programs in a table.
bool take_rounding(ir::Graph& graph, ir::NodeId id) {
  const ir::NodeId conv = rounds_before(graph, graph.node(id));
  if (conv == ir::no_node) return false;
  ir::Node& maker = graph.node(conv);
  const std::string number =
      ops::program_number(maker.real("alpha", 1)) + " " + ops::program_number(maker.real("beta", 0));
  std::vector<std::string> lines{maker.text("activation", "") + " %0 " + number};
  for (const std::string& line : std::get<std::vector<std::string>>(graph.node(id).attributes.at("program")))
    lines.push_back(renamed(line, [](size_t reg) { return "%" + std::to_string(reg + 1); }));
  graph.node(id).attributes["program"] = lines;
  for (const char* name : {"activation", "alpha", "beta"}) maker.attributes.erase(name);
  return true;
}

}  // namespace

bool fuse_elementwise(ir::Graph& graph) { return fuse(graph, Of::nodes); }
bool fuse_bytes(ir::Graph& graph) { return fuse(graph, Of::bytes); }

bool fuse_int16(ir::Graph& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const ir::Node& node) { return node.alive && node.op == "tenon:FakeQuantize16"; }))
    return false;
  bool changed = fuse_epilogue(graph);
  changed |= fuse(graph, Of::programs);
  return each_node(graph, [&](ir::NodeId id) { return take_rounding(graph, id); }) || changed;
}

}  // namespace tenon::passes
