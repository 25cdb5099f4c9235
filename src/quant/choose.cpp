#include "quant/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quant/structure.h"

namespace tenon::quant {
namespace {

constexpr int most_scores = 7;       // beside the one of floating point
constexpr double least_saved = 0.1;  // microseconds: less is not measured well; and bytes
constexpr double least_share = 0.02, most_share = 0.7;  // of the harm that was too much, to be tried next

/// Anchors that read one scale group: they leave eight bits together.
struct Group {
  std::vector<std::string> anchors;
  double harm = 0, saved = 0;  // error at the outputs alone; microseconds or bytes
};

/// Those that the recipe has in eight bits, the one of least harm for what it saves first.
std::vector<Group> by_price(const Contest& contest, const Pace& pace) {
  const Structure structure = structure_of(contest.graph);
  std::map<std::string, double> errors;
  for (const plan::LayerEvidence& layer : contest.recipe.evidence.layers) errors[layer.node] = layer.error;
  std::map<int, Group> groups;
  for (const ir::Node& node : contest.graph.nodes) {
    if (role_of(contest.graph, node) != Role::anchor) continue;
    const std::string& name = result_name(contest.graph, node);
    if (!pace.recipe.anchors.count(name) || pace.recipe.pinned.count(name)) continue;
    Group& group = groups[structure.group[node.inputs[0]]];
    group.anchors.push_back(name);
    if (const auto error = errors.find(node.label()); error != errors.end())
      group.harm = std::max(group.harm, error->second);
    if (const auto saved = pace.saved.find(name); saved != pace.saved.end()) group.saved += saved->second;
  }
  std::vector<Group> order;
  for (auto& [id, group] : groups) order.push_back(std::move(group));
  std::stable_sort(order.begin(), order.end(), [](const Group& a, const Group& b) {
    return a.harm * std::max(b.saved, least_saved) < b.harm * std::max(a.saved, least_saved);
  });
  return order;
}

/// The groups that stay in eight bits where so much harm is allowed: the best for their price that still fit.
std::vector<char> staying(const std::vector<Group>& order, double allowed) {
  std::vector<char> stays(order.size());
  double left = allowed;
  for (size_t at = 0; at < order.size(); ++at)
    if (order[at].harm <= left) stays[at] = 1, left -= order[at].harm;
  return stays;
}

std::vector<std::string> in_floats(const ir::Graph& graph, const Recipe& recipe) {
  std::vector<std::string> nodes;
  for (const ir::Node& node : graph.nodes)
    if (role_of(graph, node) == Role::anchor && !recipe.anchors.count(result_name(graph, node)))
      nodes.push_back(node.label());
  return nodes;
}

class Chooser {
 public:
  Chooser(const Contest& contest, plan::Search& search)
      : contest_(contest), search_(search), floats_at_(search.points.size() - 1) {
    for (plan::SearchPoint& point : search_.points) point.floats = in_floats(contest.graph, {});
  }

  /// Whether a plan is within the limit, or slower than floating point, so that more in floating point is of no use.
  bool is_enough(Pace pace) {
    const bool timed = pace.float_us > 0;
    plan::SearchPoint& real = search_.points[floats_at_];
    if (timed && real.milliseconds == 0) real.milliseconds = pace.float_us / 1e3;
    if (timed && pace.int8_us >= pace.float_us) {
      slow_ = fmt::format(": {:.3f} ms against {:.3f} ms", pace.int8_us / 1e3, pace.float_us / 1e3);
      return true;
    }
    if (pace.recipe.anchors.empty()) return true;
    const std::vector<std::string> floats = in_floats(contest_.graph, pace.recipe);
    for (const plan::SearchPoint& point : search_.points)
      if (point.floats == floats) return point.drop <= contest_.limit;
    const Score score = contest_.score(pace.quantised);
    // Both plans ran in turn: their ratio is steadier than the times.
    const double ms = timed ? pace.int8_us / pace.float_us * real.milliseconds : 0;
    search_.points.push_back({ms, score.value, score.drop, score.low, score.high,
                              static_cast<int64_t>(pace.recipe.anchors.size()), floats, false,
                              real.rest});
    const bool within = score.drop <= contest_.limit;
    double saved = 0;
    for (const auto& [anchor, part] : pace.saved) saved += part;
    if (within && (best_at_ == 0 || is_better(search_.points.back(), saved))) {
      most_saved_ = saved;
      best_ = std::move(pace);
      best_at_ = search_.points.size() - 1;
    }
    return within;
  }

  bool may_go_on() const { return search_.points.size() - floats_at_ <= most_scores; }

  std::optional<Pace> finish() {
    // Without eight bits: floating point as it is fast, or fp32 where that loses too much.
    const size_t chosen = best_at_ > 0 ? best_at_ : search_.points[floats_at_].drop <= contest_.limit ? floats_at_ : 0;
    search_.points[chosen].chosen = true;
    if (search_.points.size() == floats_at_ + 1) search_.why = "eight bits are not faster" + slow_;
    else if (best_at_ == 0) search_.why = "nothing in eight bits that is faster loses so little";
    else
      search_.why = fmt::format("it {} of those that lose at most {:g} points",
                                contest_.objective == Objective::size             ? "has the smallest weights"
                                : search_.points[best_at_].milliseconds > 0 ? "is the fastest"
                                                                            : "has the most layers in eight bits",
                                contest_.limit);
    return std::move(best_);
  }

 private:
  /// Than the best so far.
  bool is_better(const plan::SearchPoint& one, double saved) const {
    const plan::SearchPoint& other = search_.points[best_at_];
    if (contest_.objective == Objective::size) return saved > most_saved_;
    return one.milliseconds > 0 ? one.milliseconds < other.milliseconds : one.integer > other.integer;
  }

  const Contest& contest_;
  plan::Search& search_;
  const size_t floats_at_;
  std::optional<Pace> best_;
  std::string slow_;  // what was measured where eight bits did not pay
  size_t best_at_ = 0;
  double most_saved_ = 0;  // by the best
};

}  // namespace

std::optional<Pace> choose(const Contest& contest, plan::Search& search) {
  Chooser chooser(contest, search);
  if (contest.recipe.anchors.empty()) return chooser.finish();
  Pace all = contest.make(contest.recipe);
  const std::vector<Group> order = by_price(contest, all);
  const Recipe faster = all.recipe;
  if (chooser.is_enough(std::move(all))) return chooser.finish();
  // With `low` allowed the drop is within the limit, or eight bits do not pay; with `high` it is not.
  double low = 0, high = 0;
  for (const Group& group : order) high += group.harm;
  std::vector<char> within(order.size()), beyond(order.size(), 1);
  constexpr int most_steps = 60;  // many find nothing new
  constexpr double far = 4;       // apart
  for (int step = 0; step < most_steps && within != beyond && chooser.may_go_on(); ++step) {
    const double drop = search.points.back().drop;
    double allowed = (low + high) / 2;
    if (low == 0) allowed = high * std::clamp(contest.limit / drop, least_share, most_share);
    else if (high > far * low) allowed = std::sqrt(low * high);
    const std::vector<char> stays = staying(order, allowed);
    bool enough = stays == within;
    if (!enough && stays != beyond) {
      std::map<std::string, std::string> out;
      for (size_t at = 0; at < order.size(); ++at)
        for (const std::string& anchor : order[at].anchors)
          if (!stays[at])
            out[anchor] = fmt::format("in eight bits it costs too much accuracy for the {} it saves",
                                      contest.objective == Objective::size ? "space" : "time");
      enough = chooser.is_enough(contest.make(without(contest.graph, faster, out)));
    }
    (enough ? low : high) = allowed;
    (enough ? within : beyond) = stays;
  }
  return chooser.finish();
}

Pace by_size(const ir::Graph& graph, const Recipe& recipe, plan::Plan quantised) {
  Pace pace{std::move(quantised), 0, 0, recipe, {}};
  for (const ir::Node& node : graph.nodes)
    if (const std::string& name = result_name(graph, node); recipe.anchors.count(name))
      if (const Tensor* weights = graph.constant(node.inputs[1]))
        pace.saved[name] = static_cast<double>(weights->bytes() - static_cast<size_t>(weights->elements()));
  return pace;
}

}  // namespace tenon::quant
