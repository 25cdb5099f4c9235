// SPDX-License-Identifier: Apache-2.0
#include "compile/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/bisection.h"
#include "quant/structure.h"

namespace tenon::compile {
namespace {

constexpr int most_scores = 7;       // beside the one of floating point
constexpr double least_saved = 0.1;  // microseconds: less is not measured well; and bytes

/// INT8 keeps a value to a part of the widest one's range, bf16 to a part of its own size: of layers tried alone,
/// the squared error at the outputs is about this part of that in INT8.
constexpr double sensitivity_to_rounding = 1.0 / 40;

/// Anchors that read one scale group: they leave INT8 together. Or one that may be in bf16.
struct Group {
  std::vector<std::string> anchors;
  bool rounded = false;
  double sensitivity = 0, saved = 0;  // error at the outputs alone; microseconds or bytes
};

/// The anchors that gain by bf16, with sensitivity in the measure of INT8; that of a layer which was not measured
/// is the median.
std::vector<Group> roundings(const Selection& selection, const std::map<std::string, double>& errors) {
  std::vector<double> measured;
  for (const auto& [label, error] : errors)
    if (error > 0) measured.push_back(error);
  std::sort(measured.begin(), measured.end());
  const double usual = measured.empty() ? 1 : measured[measured.size() / 2];
  std::vector<Group> found;
  for (const ir::Node& node : selection.graph.nodes) {
    const auto saved = selection.rounding.find(quant::result_name(selection.graph, node));
    if (saved == selection.rounding.end() || saved->second <= least_saved) continue;
    const auto error = errors.find(node.label());
    const double sensitivity = error != errors.end() && error->second > 0 ? error->second : usual;
    found.push_back({{saved->first}, true, sensitivity * sensitivity_to_rounding, saved->second});
  }
  return found;
}

/// Those that the recipe has in INT8, and those that bf16 makes faster, the one of least sensitivity for what it
/// saves first.
std::vector<Group> by_cost(const Selection& selection, const LatencyCheck& check) {
  const quant::Structure structure = quant::structure_of(selection.graph);
  std::map<std::string, double> errors;
  for (const plan::LayerEvidence& layer : selection.recipe.evidence.layers) errors[layer.node] = layer.error;
  std::map<int, Group> groups;
  for (const ir::Node& node : selection.graph.nodes) {
    if (quant::role_of(selection.graph, node) != quant::Role::anchor) continue;
    const std::string& name = quant::result_name(selection.graph, node);
    if (!check.recipe.anchors.count(name) || check.recipe.pinned.count(name)) continue;
    Group& group = groups[structure.group[node.inputs[0]]];
    group.anchors.push_back(name);
    if (const auto error = errors.find(node.label()); error != errors.end())
      group.sensitivity = std::max(group.sensitivity, error->second);
    if (const auto saved = check.saved.find(name); saved != check.saved.end()) group.saved += saved->second;
  }
  std::vector<Group> order = roundings(selection, errors);
  for (auto& [id, group] : groups) order.push_back(std::move(group));
  std::stable_sort(order.begin(), order.end(), [](const Group& a, const Group& b) {
    return a.sensitivity * std::max(b.saved, least_saved) < b.sensitivity * std::max(a.saved, least_saved);
  });
  return order;
}

/// The anchors in bf16 where these groups stay.
std::set<std::string> rounded_of(const std::vector<Group>& order, const std::vector<char>& stays) {
  std::set<std::string> names;
  for (size_t at = 0; at < order.size(); ++at)
    if (order[at].rounded && stays[at]) names.insert(order[at].anchors[0]);
  return names;
}

std::vector<std::string> in_floats(const ir::Graph& graph, const quant::Recipe& recipe) {
  std::vector<std::string> nodes;
  for (const ir::Node& node : graph.nodes)
    if (quant::role_of(graph, node) == quant::Role::anchor && !recipe.anchors.count(quant::result_name(graph, node)))
      nodes.push_back(node.label());
  return nodes;
}

class Chooser {
 public:
  Chooser(const Selection& selection, plan::Search& search)
      : selection_(selection),
        search_(search),
        floats_at_(search_.points.size() - 1),
        reference_at_(selection.rounding.empty() ? floats_at_ : 0) {
    for (plan::SearchPoint& point : search_.points)
      point.floats = in_floats(selection.graph, {}), rounded_.emplace_back();
    for (const Group& one : roundings(selection, {})) rounded_[floats_at_].insert(one.anchors[0]);
  }

  /// Whether a plan is within the limit, or slower than floating point, so that more in floating point is of no use.
  bool is_enough(LatencyCheck check) {
    const bool timed = check.float_us > 0;
    plan::SearchPoint& real = search_.points[reference_at_];
    if (timed && real.milliseconds == 0) real.milliseconds = check.float_us / 1e3;
    if (timed && check.int8_us >= check.float_us) {
      slow_ = fmt::format(": {:.3f} ms against {:.3f} ms", check.int8_us / 1e3, check.float_us / 1e3);
      return true;
    }
    if (check.recipe.anchors.empty() && check.rounded.empty()) return true;
    const std::vector<std::string> floats = in_floats(selection_.graph, check.recipe);
    for (size_t at = 0; at < search_.points.size(); ++at)
      if (search_.points[at].floats == floats && rounded_[at] == check.rounded) return is_within(search_.points[at]);
    const Score score = selection_.score(check.quantised);
    // Both plans ran in turn: their ratio is steadier than the times.
    const double ms = timed ? check.int8_us / check.float_us * real.milliseconds : 0;
    search_.points.push_back({ms, score.value, score.drop, score.low, score.high,
                              static_cast<int64_t>(check.recipe.anchors.size()), floats, false, rest_of(check),
                              score.objection});
    rounded_.push_back(check.rounded);
    const bool within = is_within(search_.points.back());
    double saved = 0;
    for (const auto& [anchor, part] : check.saved) saved += part;
    if (within && (best_at_ == 0 || is_better(search_.points.back(), saved))) {
      most_saved_ = saved;
      best_ = std::move(check);
      best_at_ = search_.points.size() - 1;
    }
    return within;
  }

  /// How many scores may follow.
  int scores_left() const { return most_scores + 1 - static_cast<int>(search_.points.size() - floats_at_); }

  std::optional<LatencyCheck> finish() {
    const plan::SearchPoint& floats = search_.points[floats_at_];
    const bool floats_do = is_within(floats);
    const bool nothing = search_.points.size() == floats_at_ + 1;
    if (best_at_ > 0 && floats_do && floats.milliseconds > 0 &&
        floats.milliseconds <= search_.points[best_at_].milliseconds) {
      best_at_ = 0;
      best_.reset();
      search_.why = "all in " + floats.rest + " is faster than what loses so little in INT8";
    } else if (nothing) {
      search_.why = "INT8 is not faster" + slow_;
    } else if (best_at_ == 0) {
      search_.why = "nothing in INT8 that is faster loses so little";
    } else {
      search_.why = fmt::format("it {} of those that lose at most {:g} points",
                                selection_.objective == Objective::size     ? "has the smallest weights"
                                : search_.points[best_at_].milliseconds > 0 ? "is the fastest"
                                                                            : "has the most layers in INT8",
                                selection_.limit);
    }
    // Without INT8: floating point as it is fast, or fp32 where that loses too much.
    search_.points[best_at_ > 0 ? best_at_ : floats_do ? floats_at_ : 0].chosen = true;
    return std::move(best_);
  }

 private:
  bool is_within(const plan::SearchPoint& point) const {
    return point.drop <= selection_.limit && point.objection.empty();
  }

  /// What layers in floating point are in.
  std::string rest_of(const LatencyCheck& check) const {
    if (selection_.rounding.empty()) return search_.points[floats_at_].rest;
    return check.rounded.empty() ? "fp32" : fmt::format("{} bf16", check.rounded.size());
  }

  /// Than the best so far.
  bool is_better(const plan::SearchPoint& one, double saved) const {
    const plan::SearchPoint& other = search_.points[best_at_];
    if (selection_.objective == Objective::size) return saved > most_saved_;
    return one.milliseconds > 0 ? one.milliseconds < other.milliseconds : one.integer > other.integer;
  }

  const Selection& selection_;
  plan::Search& search_;
  const size_t floats_at_, reference_at_;       // all in floating point; what times are measured beside
  std::vector<std::set<std::string>> rounded_;  // anchors in bf16, by point
  std::optional<LatencyCheck> best_;
  std::string slow_;  // what was measured where INT8 did not pay
  size_t best_at_ = 0;
  double most_saved_ = 0;  // by the best
};

/// Why an anchor leaves INT8, with the microseconds that it saves there where they were measured.
std::string too_costly(Objective objective, const std::map<std::string, double>& saved, const std::string& anchor) {
  const auto found = saved.find(anchor);
  if (objective == Objective::size || found == saved.end())
    return fmt::format("in INT8 it costs too much accuracy for the {} it saves",
                       objective == Objective::size ? "space" : "time");
  return fmt::format("in INT8 it costs too much accuracy for the {:.1f} us it saves", found->second);
}

/// Bare output convolutions of a recipe, as reasons for them to leave it: what they lose is in the results as it is.
std::map<std::string, std::string> outputs_of(const Selection& selection, const LatencyCheck& check) {
  const quant::Structure structure = quant::structure_of(selection.graph);
  std::map<std::string, std::string> out;
  for (size_t at = 0; at < selection.graph.nodes.size(); ++at) {
    const std::string& name = quant::result_name(selection.graph, selection.graph.nodes[at]);
    if (structure.reasons[at] == quant::bare_output && check.recipe.anchors.count(name) &&
        !check.recipe.pinned.count(name))
      out[name] = too_costly(selection.objective, check.saved, name);
  }
  return out;
}

}  // namespace

std::optional<LatencyCheck> choose(const Selection& selection, plan::Search& search) {
  Chooser chooser(selection, search);
  if (selection.recipe.anchors.empty() && selection.rounding.empty()) return chooser.finish();
  const std::vector<Group> may_round = roundings(selection, {});
  const std::set<std::string> all_rounded = rounded_of(may_round, std::vector<char>(may_round.size(), 1));
  LatencyCheck all = selection.make(selection.recipe, all_rounded);
  if (const auto outputs = outputs_of(selection, all); !outputs.empty()) {
    const quant::Recipe inner = quant::without(selection.graph, all.recipe, outputs);
    if (chooser.is_enough(std::move(all))) return chooser.finish();
    all = selection.make(inner, all_rounded);
  }
  const std::vector<Group> order = by_cost(selection, all);
  const quant::Recipe faster = all.recipe;
  const std::map<std::string, double> saved = all.saved;
  if (chooser.is_enough(std::move(all))) return chooser.finish();
  std::vector<double> sensitivities;
  for (const Group& group : order) sensitivities.push_back(group.sensitivity);
  Bisection bisection(std::move(sensitivities));
  while (chooser.scores_left() > 0) {
    const double limit_by_drop = selection.limit / search.points.back().drop;
    if (selection.expects) selection.expects(bisection.expected(chooser.scores_left(), limit_by_drop));
    const std::optional<std::vector<char>> stays = bisection.next(limit_by_drop);
    if (!stays) break;
    std::map<std::string, std::string> out;
    for (size_t at = 0; at < order.size(); ++at)
      for (const std::string& anchor : order[at].anchors)
        if (!(*stays)[at] && !order[at].rounded) out[anchor] = too_costly(selection.objective, saved, anchor);
    bisection.tell(
        chooser.is_enough(selection.make(quant::without(selection.graph, faster, out), rounded_of(order, *stays))));
  }
  return chooser.finish();
}

LatencyCheck by_size(const ir::Graph& graph, const quant::Recipe& recipe, plan::Plan quantised) {
  LatencyCheck check{std::move(quantised), 0, 0, recipe, {}, {}};
  for (const ir::Node& node : graph.nodes)
    if (const std::string& name = quant::result_name(graph, node); recipe.anchors.count(name))
      if (const Tensor* weights = graph.constant(node.inputs[1]))
        check.saved[name] = static_cast<double>(weights->bytes() - static_cast<size_t>(weights->elements()));
  return check;
}

}  // namespace tenon::compile
