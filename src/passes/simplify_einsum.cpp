// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::einsum {
namespace {

bool has(const std::string& term, char label) { return term.find(label) != std::string::npos; }

struct Sum {
  std::vector<ir::ValueId> values;
  std::vector<std::string> terms;  // a label for each axis of each value
  std::string output;
  bool was_plain = true;  // two terms and an output, each of letters alone
};

/// Parts of the equation without its spaces; the output is absent where the equation leaves it to be found.
std::optional<std::string> split(const ir::Node& node, Sum& sum) {
  std::string text = node.text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  for (size_t comma; (comma = left.find(',')) != std::string::npos; left.erase(0, comma + 1))
    sum.terms.push_back(left.substr(0, comma));
  sum.terms.push_back(left);
  if (arrow == std::string::npos) return std::nullopt;
  return text.substr(arrow + 2);
}

/// "..." replaced by the last `count` of labels that no term has.
bool expand(std::string& term, size_t count, const std::string& fresh) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) return true;
  if (count > fresh.size()) return false;
  term.replace(dots, 3, fresh.substr(fresh.size() - count));
  return true;
}

bool is_plain(const std::string& term) {
  std::string sorted = term;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
         std::all_of(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c); });
}

/// What an equation without "->" gives: "...", then labels of one axis alone by the alphabet.
std::string found_output(const std::vector<std::string>& terms) {
  std::string output;
  const auto in_all = [&](char label) {
    size_t count = 0;
    for (const std::string& term : terms) count += static_cast<size_t>(std::count(term.begin(), term.end(), label));
    return count;
  };
  if (in_all('.') > 0) output = "...";
  for (int label = 'A'; label <= 'z'; ++label)
    if (std::isalpha(label) && in_all(static_cast<char>(label)) == 1) output += static_cast<char>(label);
  return output;
}

/// Whether a label stands for as many elements in all terms: axes of "..." may be of one where others are of more.
bool has_one_size(const ir::Graph& graph, const Sum& sum, char label) {
  const ir::Dim* known = nullptr;
  for (size_t k = 0; k < sum.terms.size(); ++k) {
    if (!has(sum.terms[k], label)) continue;
    const ir::Shape* shape = shape_of(graph, sum.values[k]);
    if (!shape) return false;
    const ir::Dim& size = (*shape)[sum.terms[k].find(label)];
    if (known && !(*known == size)) return false;
    known = &size;
  }
  return true;
}

std::optional<Sum> read(const ir::Graph& graph, const ir::Node& node) {
  Sum sum;
  sum.values = node.inputs;
  const std::optional<std::string> given = split(node, sum);
  if (sum.terms.size() != sum.values.size()) return std::nullopt;
  sum.output = given ? *given : found_output(sum.terms);
  sum.was_plain =
      given && sum.terms.size() == 2 && is_plain(sum.terms[0]) && is_plain(sum.terms[1]) && is_plain(sum.output);

  std::vector<size_t> axes_of_dots(sum.terms.size(), 0);
  size_t most = 0;
  for (size_t k = 0; k < sum.terms.size(); ++k) {
    const auto rank = rank_of(graph, sum.values[k]);
    const bool dots = has(sum.terms[k], '.');
    const size_t letters = sum.terms[k].size() - (dots ? 3 : 0);
    if (!rank || *rank < letters || (!dots && *rank != letters)) return std::nullopt;
    axes_of_dots[k] = *rank - letters;
    most = std::max(most, axes_of_dots[k]);
  }
  std::string fresh;
  for (int label = 'A'; label <= 'z' && fresh.size() < most; ++label) {
    const auto used = [&](const std::string& term) { return has(term, static_cast<char>(label)); };
    if (std::isalpha(label) && std::none_of(sum.terms.begin(), sum.terms.end(), used))
      fresh += static_cast<char>(label);
  }
  if (fresh.size() < most) return std::nullopt;
  for (size_t k = 0; k < sum.terms.size(); ++k)
    if (!expand(sum.terms[k], axes_of_dots[k], fresh) || !is_plain(sum.terms[k])) return std::nullopt;
  if (!expand(sum.output, most, fresh) || !is_plain(sum.output)) return std::nullopt;
  for (char label : fresh)
    if (!has_one_size(graph, sum, label)) return std::nullopt;
  for (char label : sum.output)
    if (std::none_of(sum.terms.begin(), sum.terms.end(), [&](const std::string& term) { return has(term, label); }))
      return std::nullopt;
  return sum;
}

class Rewrite {
 public:
  Rewrite(ir::Graph& graph, ir::NodeId id)
      : graph_(graph), node_(graph.node(id)), name_(graph.value(node_.outputs[0]).name) {}

  /// Labels that one term alone has, and the output has not.
  static std::string lone(const Sum& sum, size_t k) {
    std::string found;
    for (char label : sum.terms[k]) {
      bool elsewhere = has(sum.output, label);
      for (size_t other = 0; other < sum.terms.size(); ++other)
        elsewhere = elsewhere || (other != k && has(sum.terms[other], label));
      if (!elsewhere) found += label;
    }
    return found;
  }

  void add_up_lone(Sum& sum, size_t k) {
    const std::string labels = lone(sum, k);
    if (labels.empty()) return;
    std::vector<int64_t> axes;
    for (char label : labels) axes.push_back(static_cast<int64_t>(sum.terms[k].find(label)));
    sum.values[k] =
        apply("ReduceSum", {sum.values[k], constant(graph_, name_ + ".axes", axes)}, {{"keepdims", int64_t{0}}});
    std::string& term = sum.terms[k];
    term.erase(std::remove_if(term.begin(), term.end(), [&](char label) { return has(labels, label); }), term.end());
  }

  ir::ValueId ordered(ir::ValueId value, const std::string& from, const std::string& to) {
    if (from == to) return value;
    std::vector<int64_t> perm;
    for (char label : to) perm.push_back(static_cast<int64_t>(from.find(label)));
    return apply("Transpose", {value}, {{"perm", perm}});
  }

  /// The first two terms as one of the labels that are asked for.
  ir::ValueId pair(const Sum& sum, const std::string& output) {
    const std::string &a = sum.terms[0], &b = sum.terms[1];
    const bool sums = std::any_of(a.begin(), a.end(), [&](char label) { return !has(output, label); });
    if (sums) return apply("Einsum", {sum.values[0], sum.values[1]}, {{"equation", a + "," + b + "->" + output}});
    return apply("Mul", {over(sum.values[0], a, output), over(sum.values[1], b, output)}, {});
  }

 private:
  ir::ValueId apply(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
    return graph_.apply(op, std::move(inputs), std::move(attributes), node_.origins, name_);
  }

  /// The value's axes in the output's order, and one of a single element for each that it lacks.
  ir::ValueId over(ir::ValueId value, const std::string& term, const std::string& output) {
    std::string kept;
    std::vector<int64_t> missing;
    for (size_t axis = 0; axis < output.size(); ++axis) {
      if (has(term, output[axis])) kept += output[axis];
      else missing.push_back(static_cast<int64_t>(axis));
    }
    value = ordered(value, term, kept);
    if (missing.empty()) return value;
    return apply("Unsqueeze", {value, constant(graph_, name_ + ".axes", missing)}, {});
  }

  ir::Graph& graph_;
  const ir::Node node_;
  const std::string name_;
};

/// Labels of the first two terms that the output or other terms have.
std::string asked_for(const Sum& sum) {
  std::string labels;
  for (char label : sum.terms[0] + sum.terms[1]) {
    bool asked = has(sum.output, label);
    for (size_t k = 2; k < sum.terms.size(); ++k) asked = asked || has(sum.terms[k], label);
    if (asked && !has(labels, label)) labels += label;
  }
  return labels;
}

bool simplify_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Einsum" || node.inputs.empty() || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  std::optional<Sum> sum = read(graph, node);
  if (!sum) return false;
  const bool has_lone = !Rewrite::lone(*sum, 0).empty() || (sum->terms.size() > 1 && !Rewrite::lone(*sum, 1).empty());
  const auto in_output = [&](char label) { return has(sum->output, label); };
  const bool sums = !std::all_of(sum->terms[0].begin(), sum->terms[0].end(), in_output);
  if (sum->was_plain && !has_lone && sums) return false;

  Rewrite rewrite(graph, id);
  for (size_t k = 0; k < sum->terms.size(); ++k) rewrite.add_up_lone(*sum, k);
  while (sum->terms.size() > 2) {
    const std::string labels = asked_for(*sum);
    sum->values[1] = rewrite.pair(*sum, labels);
    sum->terms[1] = labels;
    sum->values.erase(sum->values.begin());
    sum->terms.erase(sum->terms.begin());
  }
  const ir::ValueId result = sum->terms.size() == 2 ? rewrite.pair(*sum, sum->output)
                                                    : rewrite.ordered(sum->values[0], sum->terms[0], sum->output);
  replace(graph, id, result);
  return true;
}

}  // namespace
}  // namespace tenon::passes::einsum

namespace tenon::passes {

bool simplify_einsum(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return einsum::simplify_at(graph, id); });
}

}  // namespace tenon::passes
