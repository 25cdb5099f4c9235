// SPDX-License-Identifier: Apache-2.0
#include "compile/packed_forms.h"

#include <algorithm>
#include <map>
#include <set>

#include "backends/backend.h"

namespace tenon::compile {
namespace {

using backends::WeightCache;

constexpr double most_slower = 0.008;              // of the time of steps that were timed, for all memory that is saved
constexpr int64_t least_saved = int64_t{1} << 20;  // bytes, for a change
constexpr int64_t cached = int64_t{32} << 20;      // of weights that may stay in a cache from run to run
constexpr double from_memory = 150e3;              // bytes, for each microsecond that a thread waits for them: in large
                                                   // pages, 2 to 5 us/MB on two threads

/// A tactic of a key, and what it packs in the steps of that key, in order.
struct Option {
  std::string tactic;
  double microseconds = 0;  // of a step
  std::vector<WeightCache::Form> forms = {};
};

/// Steps of one key, which run by one tactic.
struct Entry {
  std::string key;
  std::vector<Option> options;
  size_t chosen = 0;
  std::set<int64_t> weights = {};  // addresses of their constants
  double microseconds(size_t option) const {
    return options[option].microseconds * static_cast<double>(options[option].forms.size());
  }
};

struct Move {
  size_t entry, option;
};

class Chooser {
 public:
  explicit Chooser(plan::Plan& plan) : plan_(plan), backend_(backends::backend(plan.device)) {}

  void run() {
    const ir::Graph graph = plan::planned_part(plan::concretise(plan_.graph, plan_.shapes));
    if (graph.nodes.empty() || !backend_.capabilities(plan_.device).host_memory) return;
    const backends::Schedule schedule =
        plan::schedule(plan_, plan::device_graph(graph, plan_), plan_.threads, plan::Branches::sequential);
    for (const ir::Value& value : schedule.graph.values)
      if (value.is_constant() && value.dtype == DType::f32) weights_ += static_cast<int64_t>(value.constant.bytes());
    for (const backends::ScheduledStep& step : schedule.steps) enter(step);
    start_with_fastest();
    spare();
    for (const Entry& entry : entries_) plan::prefer(plan_.records.at(entry.key), entry.options[entry.chosen].tactic);
  }

 private:
  /// With its weights from memory, where the network's do not stay in a cache.
  double microseconds(double alone, size_t bytes) const {
    if (weights_ <= cached) return alone;
    return alone + static_cast<double>(bytes) / (from_memory * plan_.threads);
  }

  void enter(const backends::ScheduledStep& step) {
    const auto record = plan_.records.find(step.key);
    if (record == plan_.records.end()) return;
    const auto form = [&](const std::string& tactic) { return backend_.form(step.problem, tactic); };
    if (record->second.candidates.empty() || !form(record->second.kernel)) {
      total_ += record->second.microseconds;
      return;
    }
    const auto [at, fresh] = places_.emplace(step.key, entries_.size());
    if (fresh) {
      entries_.push_back({step.key, {{record->second.kernel, record->second.microseconds}}});
      for (const plan::Candidate& one : record->second.candidates)
        if (one.microseconds < plan::never && form(one.kernel) &&
            backend_.choose(step.problem, plan_.device, one.kernel) == one.kernel)
          entries_.back().options.push_back({one.kernel, one.microseconds});
    }
    Entry& entry = entries_[at->second];
    for (Option& option : entry.options) {
      option.forms.push_back(*form(option.tactic));
      if (fresh) option.microseconds = microseconds(option.microseconds, option.forms[0].bytes);
    }
    entry.weights.insert(entry.options[0].forms.back().key[0]);
  }

  void start_with_fastest() {
    for (Entry& entry : entries_) {
      const auto fastest =
          std::min_element(entry.options.begin(), entry.options.end(),
                           [](const auto& a, const auto& b) { return a.microseconds < b.microseconds; });
      entry.chosen = static_cast<size_t>(fastest - entry.options.begin());
      total_ += entry.microseconds(entry.chosen);
      hold(entry, 1);
    }
  }

  void hold(const Entry& entry, int more) {
    for (const WeightCache::Form& form : entry.options[entry.chosen].forms) {
      int& holders = holders_[form.key];
      const bool was_held = holders > 0;
      holders += more;
      if (was_held != (holders > 0)) held_ += (more > 0 ? 1 : -1) * static_cast<int64_t>(form.bytes);
    }
  }

  /// Microseconds that the network takes longer.
  double make(const std::vector<Move>& moves) {
    double slower = 0;
    for (const auto& [at, option] : moves) {
      Entry& entry = entries_[at];
      slower += entry.microseconds(option) - entry.microseconds(entry.chosen);
      hold(entry, -1);
      entry.chosen = option;
      hold(entry, 1);
    }
    return slower;
  }

  std::vector<Move> back_of(const std::vector<Move>& moves) const {
    std::vector<Move> back;
    for (const Move& move : moves) back.push_back({move.entry, entries_[move.entry].chosen});
    return back;
  }

  /// Another tactic for an entry, or for all of its tactic that share weights with it.
  std::vector<std::vector<Move>> moves() const {
    std::vector<std::vector<Move>> all;
    for (size_t at = 0; at < entries_.size(); ++at)
      for (size_t option = 0; option < entries_[at].options.size(); ++option) {
        if (option == entries_[at].chosen) continue;
        all.push_back({{at, option}});
        std::vector<Move> alike = alike_of(at, entries_[at].options[option].tactic);
        if (alike.size() > 1) all.push_back(std::move(alike));
      }
    return all;
  }

  std::vector<Move> alike_of(size_t entry, const std::string& tactic) const {
    const Entry& one = entries_[entry];
    std::vector<Move> alike;
    for (size_t at = 0; at < entries_.size(); ++at) {
      const Entry& other = entries_[at];
      const bool shares = std::any_of(other.weights.begin(), other.weights.end(),
                                      [&](int64_t weights) { return one.weights.count(weights) > 0; });
      if (!shares || other.options[other.chosen].tactic != one.options[one.chosen].tactic) continue;
      for (size_t option = 0; option < other.options.size(); ++option)
        if (other.options[option].tactic == tactic) alike.push_back({at, option});
    }
    return alike;
  }

  /// The changes that save most for the time they take, one after the other.
  void spare() {
    double left = most_slower * total_;
    for (;;) {
      constexpr double least_time = 0.1;  // microseconds: less is none
      double best_ratio = 0;
      std::vector<Move> best;
      for (const std::vector<Move>& moves : moves()) {
        const std::vector<Move> back = back_of(moves);
        const int64_t before = held_;
        const double slower = make(moves);
        const int64_t saved = before - held_;
        make(back);
        const double ratio = static_cast<double>(saved) / std::max(slower, least_time);
        if (saved < least_saved || slower > left || ratio <= best_ratio) continue;
        best_ratio = ratio, best = moves;
      }
      if (best.empty()) return;
      left -= std::max(0.0, make(best));
    }
  }

  plan::Plan& plan_;
  const backends::Backend& backend_;
  int64_t weights_ = 0;  // bytes, as the model has them
  double total_ = 0;     // microseconds of all steps that were timed
  std::vector<Entry> entries_;
  std::map<std::string, size_t> places_;  // of entries, by key
  std::map<WeightCache::Key, int> holders_;
  int64_t held_ = 0;  // bytes of what anyone holds
};

}  // namespace

void choose_packed_forms(plan::Plan& plan) { Chooser(plan).run(); }

}  // namespace tenon::compile
