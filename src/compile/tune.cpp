// SPDX-License-Identifier: Apache-2.0
#include "compile/tune.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "backends/backend.h"
#include "compile/measure.h"
#include "compile/tuning_left.h"
#include "passes/groups.h"
#include "plan/blocks.h"
#include "plan/body_plans.h"
#include "plan/rest.h"
#include "plan/timing_key.h"

namespace tenon::compile {
namespace {

using backends::Member;
using backends::Problem;
using plan::Candidate;
using plan::Record;
using plan::Sources;
using Clock = std::chrono::steady_clock;
constexpr double longest_again = 1e4;  // microseconds of a kernel, for another round
constexpr int more_rounds = 3;         // of what was disturbed

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A group's nodes as steps of their own.
struct Unfused {
  double microseconds = 0;        // of all, each timed alone; 0: not known, or there is no group
  std::vector<Member> members;    // where they are timed together
  std::vector<std::string> keys;  // of their records
};

/// A problem to be timed.
struct Entry {
  std::string key;
  Problem problem;
  std::vector<std::string> tactics;  // all
  Sources open;                      // those that are to be timed
  Record known;                      // of the others
  Unfused unfused;
  double work = 1;  // of a tactic: nodes that it runs
};

/// With each kernel's least time of both; one that is sound counts before one that was disturbed.
Record merged(const Record& one, const Record& other) {
  std::vector<Candidate> timed = timed_of(one);
  for (Candidate& candidate : timed)
    for (const Candidate& again : timed_of(other)) {
      if (candidate.kernel != again.kernel) continue;
      const bool sound = candidate.source != 0, sound_again = again.source != 0;
      if (sound != sound_again) candidate = sound ? candidate : again;
      else candidate.microseconds = std::min(candidate.microseconds, again.microseconds);
    }
  return plan::record_of(std::move(timed));
}

/// With the time of the steps that one would replace, which is no measurement of its own.
Record with_unfused(const Record& record, double microseconds) {
  return microseconds > 0 ? joined(record, {plan::unfused, microseconds}) : record;
}

class Tuner {
 public:
  Tuner(plan::Plan& plan, const plan::Records& known, Disturbed& disturbed, double budget_seconds,
        const Progress& progress)
      : plan_(plan),
        known_(known),
        disturbed_(disturbed),
        budget_seconds_(budget_seconds),
        progress_(progress),
        backend_(backends::backend(plan.device)),
        can_(backend_.capabilities(plan.device)),
        policy_(backend_.timing()),
        timer_(backend_.timer(plan.device, plan.threads)),
        graph_(plan::concretise(plan.graph, plan.shapes)) {}

  Tuned run() {
    tune_all();
    Tuned tuned;
    for (const auto& [key, tactics] : timed_) {
      std::vector<Candidate> list = timed_of(plan_.records.at(key));
      std::erase_if(list, [&, &tactics = tactics](const Candidate& one) {
        return one.source != 0 || one.microseconds >= plan::never || !tactics.count(one.kernel);
      });
      tuned.tactics += static_cast<int64_t>(tactics.size()), tuned.disturbed += static_cast<int64_t>(list.size());
      if (!list.empty()) disturbed_.records[key] = joined(disturbed_.records[key], plan::record_of(std::move(list)));
    }
    return tuned;
  }

 private:
  void tune_all() {
    if (can_.parts) graph_ = plan::planned_part(std::move(graph_));
    if (!plan::is_static(graph_)) return;
    layout_ = plan::lay_out(graph_, false, can_.host_memory);
    for_each_node([&](ir::NodeId id) {
      if (!enter_blocks(id)) enter(problem_of(id), {});
    });
    const std::vector<passes::Group> groups = passes::groups_of(graph_, backend_.groups());
    const ir::Graph fused = passes::with_groups(graph_, groups);
    time_entries(groups.empty() ? 0 : work_of_groups(fused));
    // With the best kernel of each node known, one step in the place of several may be faster still.
    if (!groups.empty()) enter_groups(groups, fused);
    time_entries();
  }

  template <class F>
  void for_each_node(const F& f) const {
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id)
      if (layout_.runs[id]) f(id);
  }

  Problem problem_of(ir::NodeId id) const { return plan::problem_of(graph_, id, layout_, plan_.threads, plan_); }

  /// What is known of the entry's candidates, here or in the plan, is taken over; the rest is to be timed.
  void add(Entry entry, const Sources& sources, Record known) {
    entry.known = std::move(known);
    entry.open = missing(sources, entry.known);
    if (!entry.known.kernel.empty()) plan_.records[entry.key] = with_unfused(entry.known, entry.unfused.microseconds);
    if (!entry.open.empty()) entries_.push_back(std::move(entry));
  }

  Record known_of(const std::string& key, const Sources& sources) const {
    const auto of = [&](const plan::Records& records) {
      const auto record = records.find(key);
      return record == records.end() ? Record() : current(record->second, sources);
    };
    const auto given_up = disturbed_.records.find(key);
    const Record known = joined(of(known_), of(plan_.records));
    return given_up == disturbed_.records.end() ? known : joined(given_up->second, known);
  }

  void enter(Problem problem, Unfused unfused) {
    const std::string key = backend_.key(problem, &plan_.device);
    if (!keys_.insert(key).second) return;
    Entry entry{key, {}, backend_.tactics(problem, plan_.device), {}, {}, std::move(unfused)};
    const bool together = !entry.unfused.members.empty();
    if (entry.tactics.size() + (together || entry.unfused.microseconds > 0) < 2) return;
    const std::vector<uint64_t> hashes = backend_.sources(problem, plan_.device, entry.tactics);
    Sources sources;
    for (size_t at = 0; at < hashes.size(); ++at) sources[entry.tactics[at]] = hashes[at];
    if (together) {
      entry.tactics.insert(entry.tactics.begin(), plan::unfused);
      sources[plan::unfused] = plan::source_of(entry.unfused.keys, plan_.records);
    }
    Record known = known_of(key, sources);
    if (!plan_.goal.vendor) {
      Problem with_vendors = problem;
      with_vendors.vendor = true;
      known = joined(known_of(backend_.key(with_vendors, &plan_.device), sources), known);
    }
    entry.work = static_cast<double>(std::max<size_t>(1, entry.unfused.keys.size()));
    entry.problem = std::move(problem);
    add(std::move(entry), sources, std::move(known));
  }

  /// The steps of the bodies of a node that runs them.
  bool enter_blocks(ir::NodeId id) {
    const plan::Blocks blocks = plan::choose_blocks(graph_, problem_of(id), id, plan_).blocks;
    if (!blocks) return false;
    for (const backends::Schedule& block : *blocks)
      plan::each_step(block, [&](const backends::ScheduledStep& step) {
        if (!step.blocks) enter(step.problem, {});
      });
    blocks_.push_back(blocks);
    return true;
  }

  /// Unfused, with the best tactic of each; nothing where that is not known.
  Unfused unfused_of(const passes::Group& group, const ir::Graph& members) const {
    Unfused unfused;
    bool all = true;
    for (size_t at = 0; at < group.nodes.size(); ++at) {
      const ir::NodeId id = group.nodes[at];
      Problem problem = problem_of(id);
      const Record* record = plan::record_of(plan_, problem);
      all = all && record;
      unfused.microseconds += record ? record->microseconds : 0;
      unfused.keys.push_back(backend_.key(problem, &plan_.device));
      std::string tactic = backend_.choose(problem, plan_.device, record ? record->kernel : std::string());
      const ir::Node& node = members.nodes[at];
      unfused.members.push_back({std::move(problem), std::move(tactic), node.inputs, node.outputs});
    }
    if (!timer_->times_members()) unfused.members.clear();
    if (!all || !unfused.members.empty()) unfused.microseconds = 0;
    return unfused;
  }

  void enter_groups(const std::vector<passes::Group>& groups, const ir::Graph& fused) {
    std::map<std::string, const passes::Group*> by_result;
    for (const passes::Group& group : groups) by_result[passes::result_of(graph_, group)] = &group;
    const plan::Layout layout = plan::lay_out(fused, false, can_.host_memory);
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(fused.nodes.size()); ++id) {
      const ir::Node& node = fused.node(id);
      if (!node.members) continue;
      const passes::Group& group = *by_result.at(fused.value(node.outputs.back()).name);
      Unfused unfused = unfused_of(group, *node.members);
      if (unfused.microseconds > 0 || !unfused.members.empty())
        enter(plan::problem_of(fused, id, layout, plan_.threads, plan_), std::move(unfused));
    }
  }

  /// What was entered, as far as time allows. A moment in which another has a core may last longer than all rounds of
  /// an entry: all are timed again behind the last. `later`: work that will be entered behind these.
  void time_entries(double later = 0) {
    if (!entries_.empty() && budget_seconds_ != 0) {
      std::vector<double> work;
      for (const Entry& entry : entries_) work.push_back(static_cast<double>(entry.open.size()) * entry.work);
      left_.begin(std::move(work)), left_.expect_later(later);
      prepare();
      for (int round = 0; round < policy_.rounds + more_rounds; ++round)
        for (size_t at = 0; at < entries_.size(); ++at) {
          if (!is_open(entries_[at], round)) continue;
          left_.allow(disturbed_.allowance.microseconds / 1e6, Allowance::share);
          report("tune", left_.left(round, at));
          const auto begin = Clock::now();
          time(entries_[at], round);
          left_.timed(at, round, seconds_since(begin), entries_[at].work * tactics_again(entries_[at]),
                      entries_[at].work * disturbed_tactics(entries_[at]));
        }
    }
    entries_.clear();
  }

  /// Kernels compile at the pace of those that are done.
  void prepare() {
    std::vector<const Problem*> problems;
    for (const Entry& entry : entries_) problems.push_back(&entry.problem);
    if (!can_.compiles) return timer_->prepare(problems, {});
    report("compile", -1);
    const auto begin = Clock::now();
    bool is_wanted = true;
    timer_->prepare(problems, [&](size_t ready, size_t of) {
      const double behind = left_.left(0, 0), rest = static_cast<double>(of - ready) / static_cast<double>(ready);
      return is_wanted = tells("compile", behind < 0 ? -1 : seconds_since(begin) * rest + behind);
    });
    if (!is_wanted) throw Error(Code::usage, "the build was cancelled");
  }

  /// How many tactics of an entry that was timed are timed on each later round, unless they were disturbed.
  double tactics_again(const Entry& entry) const {
    const auto record = plan_.records.find(entry.key);
    if (record == plan_.records.end() || record->second.microseconds > longest_again) return 0;
    const auto count = static_cast<double>(open_tactics(entry, 1, false).size());
    return count == 1 && entry.open.size() > 1 ? 0 : count;
  }

  double disturbed_tactics(const Entry& entry) const {
    const auto record = plan_.records.find(entry.key);
    return record == plan_.records.end() ? 0 : static_cast<double>(count_disturbed(entry, record->second));
  }

  /// Of the tactics of groups that are not known: each runs all members.
  double work_of_groups(const ir::Graph& fused) const {
    if (entries_.empty()) return 0;
    const plan::Layout layout = plan::lay_out(fused, false, can_.host_memory);
    std::set<std::string> keys;
    double work = 0;
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(fused.nodes.size()); ++id) {
      if (!fused.node(id).members) continue;
      const Problem problem = plan::problem_of(fused, id, layout, plan_.threads, plan_);
      const std::string key = backend_.key(problem, &plan_.device);
      if (known_.count(key) || !keys.insert(key).second) continue;
      const size_t tactics = backend_.tactics(problem, plan_.device).size() + timer_->times_members();
      work += static_cast<double>(tactics * fused.node(id).members->nodes.size());
    }
    return work;
  }

  bool is_open(const Entry& entry, int round) const {
    if (budget_seconds_ >= 0 && seconds_since(begin_) > budget_seconds_) return false;
    const auto record = plan_.records.find(entry.key);
    if (round == 0) return true;
    if (record == plan_.records.end() || record->second.microseconds > longest_again) return false;
    return round < policy_.rounds || may_again(entry, record->second);
  }

  static bool is_disturbed(const Entry& entry, const Candidate& one) {
    return one.source == 0 && one.microseconds < plan::never && entry.open.count(one.kernel);
  }
  static int64_t count_disturbed(const Entry& entry, const Record& record) {
    const std::vector<Candidate> timed = timed_of(record);
    return std::count_if(timed.begin(), timed.end(), [&](const Candidate& one) { return is_disturbed(entry, one); });
  }
  bool may_again(const Entry& entry, const Record& record) const {
    return !disturbed_.allowance.is_spent() && count_disturbed(entry, record) > 0;
  }

  /// Those that are to be timed; on later rounds of them those that may yet be the fastest, or were disturbed, where
  /// they may be timed again.
  std::vector<std::string> open_tactics(const Entry& entry, int round, bool is_again) const {
    std::vector<std::string> names;
    for (const std::string& tactic : entry.tactics)
      if (entry.open.count(tactic)) names.push_back(tactic);
    if (round == 0) return names;
    const Record& record = plan_.records.at(entry.key);
    std::set<std::string> near{record.kernel};
    for (const Candidate& candidate : record.candidates)
      if (candidate.microseconds <= record.microseconds * policy_.near || (is_again && is_disturbed(entry, candidate)))
        near.insert(candidate.kernel);
    std::erase_if(names, [&](const std::string& name) { return !near.count(name); });
    return names;
  }

  /// The part of these that is timed for no other reason than that it was disturbed.
  double share_again(const Entry& entry, const std::vector<std::string>& tactics, int round) const {
    if (round >= policy_.rounds) return 1;
    const size_t anyway = open_tactics(entry, round, false).size();
    return 1 - static_cast<double>(std::min(anyway, tactics.size())) / static_cast<double>(tactics.size());
  }

  void time(const Entry& entry, int round) {
    const bool is_again = round > 0 && may_again(entry, plan_.records.at(entry.key));
    const std::vector<std::string> tactics = open_tactics(entry, round, is_again);
    // The fastest of several is not timed again alone.
    if (tactics.empty() || (round > 0 && tactics.size() == 1 && entry.open.size() > 1 && !is_again)) return;
    const auto begin = Clock::now();
    timer_->set_members(entry.unfused.members);
    const std::vector<size_t> ready = timer_->begin(entry.problem, tactics);
    std::vector<Candidate> timed;
    double known = entry.known.kernel.empty() ? plan::never : entry.known.microseconds;
    if (round > 0) known = std::min(known, plan_.records.at(entry.key).microseconds);
    const std::vector<Measurement> measured = measure(*timer_, ready, policy_, round == 0, known, disturbed_.allowance);
    if (is_again) disturbed_.allowance.spend(1e6 * seconds_since(begin) * share_again(entry, tactics, round));
    for (size_t at = 0; at < ready.size(); ++at) {
      const std::string& tactic = tactics[ready[at]];
      timed.push_back({tactic, measured[at].microseconds, measured[at].disturbed ? 0 : entry.open.at(tactic)});
      timed_[entry.key].insert(tactic);
    }
    for (const std::string& tactic : timer_->unable())
      if (const auto source = entry.open.find(tactic); source != entry.open.end())
        timed.push_back({tactic, plan::never, source->second});
    const Record found = timed.empty() ? Record() : plan::record_of(std::move(timed));
    Record& own = plan_.records[entry.key];
    own = round == 0 ? with_unfused(joined(entry.known, found), entry.unfused.microseconds) : merged(own, found);
    if (own.kernel.empty() || own.microseconds >= plan::never)
      throw Error(Code::unsupported, "no kernel runs on " + plan_.device.str(),
                  {.where = "node " + entry.problem.node->label(), .why = entry.key});
  }

  /// `left`: seconds; below 0: not known. False where the user cancels.
  bool tells(const char* stage, double left) const {
    const double spent = seconds_since(begin_);
    return !progress_ || progress_(stage, left < 0 ? 0 : spent / (spent + left), left);
  }
  void report(const char* stage, double left) const {
    if (!tells(stage, left)) throw Error(Code::usage, "the build was cancelled");
  }

  plan::Plan& plan_;
  const plan::Records& known_;
  Disturbed& disturbed_;
  const double budget_seconds_;
  const Progress& progress_;
  const backends::Backend& backend_;
  const backends::Capabilities can_;
  const backends::TimingPolicy policy_;
  const std::unique_ptr<backends::TacticTimer> timer_;
  ir::Graph graph_;
  const Clock::time_point begin_ = Clock::now();
  plan::Layout layout_;
  std::vector<plan::Blocks> blocks_;  // whose problems were entered
  std::vector<Entry> entries_;
  std::set<std::string> keys_;  // of all entries so far
  TuningLeft left_{policy_.rounds, more_rounds, policy_.usual_seconds};
  std::map<std::string, std::set<std::string>> timed_;  // tactics, by key
};

}  // namespace

Tuned tune(plan::Plan& plan, const plan::Records& known, Disturbed& disturbed, double budget_seconds,
           const Progress& progress) {
  const auto begin = Clock::now();
  Tuned tuned = Tuner(plan, known, disturbed, budget_seconds, progress).run();
  const auto add = [&](plan::Plan& of) {
    const double left = budget_seconds < 0 ? budget_seconds : std::max(0.0, budget_seconds - seconds_since(begin));
    tuned += Tuner(of, known, disturbed, left, progress).run();
    plan.records.insert(of.records.begin(), of.records.end());
  };
  const plan::Planned part = plan::planned(plan::concretise(plan.graph, plan.shapes), plan);
  // What stands behind sizes that data decides, at usual ones.
  const auto rest = part.rest ? plan::rest_of(plan, *part.rest, {}, nullptr) : nullptr;
  for (size_t at = 0; rest && at < rest->parts.size(); ++at)
    if (rest->parts[at].planned) add(rest->parts[at].planned->plan);
  // The host runs bodies that are no blocks.
  if (!backends::backend(plan.device).capabilities(plan.device).host_memory) return tuned;
  for (plan::Plan& body : plan::body_plans(plan, part.rest ? *part.whole : *part.graph)) add(body);
  return tuned;
}

}  // namespace tenon::compile
