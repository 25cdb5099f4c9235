#include "runtime/device_rank.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "plan/chains.h"
#include "plan/timing_key.h"
#include "runtime/device_program.h"

namespace tenon::runtime {
namespace {

using Branches = DeviceProgram::Branches;
using Wall = std::chrono::steady_clock;
constexpr int rounds = 9;                  // replays of each side of a comparison
constexpr double gain = 0.998;             // of the whole network's time, for a change
constexpr double nearly = 1.15;            // times the best alone, for a tactic that is tried
constexpr double nearly_for_chains = 1.5;  // the same of chains apart
constexpr size_t most_rivals = 4;          // of a step
constexpr double most_seconds = 5;

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// Medians of two things timed in turn.
template <class A, class B>
std::pair<double, double> compare(const A& a, const B& b) {
  std::vector<double> of_a, of_b;
  for (int round = 0; round < rounds; ++round) {
    of_a.push_back(a());
    of_b.push_back(b());
  }
  return {median(of_a), median(of_b)};
}

/// A step's record with another of its rivals in front.
void prefer(plan::Record& record, const std::string& kernel) {
  const auto found = std::find_if(record.rivals.begin(), record.rivals.end(),
                                  [&](const plan::Rival& rival) { return rival.kernel == kernel; });
  if (found == record.rivals.end()) return;
  std::swap(record.kernel, found->kernel);
  std::swap(record.microseconds, found->microseconds);
  std::swap(record.source, found->source);
  std::sort(record.rivals.begin(), record.rivals.end(),
            [](const plan::Rival& a, const plan::Rival& b) { return a.microseconds < b.microseconds; });
}

struct Ranking {
  plan::Plan& plan;
  DeviceProgram& program;
  plan::Records found;  // tactics preferred, by network and key
  uint64_t source;      // of all that was timed

  /// Keys of steps with rivals, those that take most time first.
  std::vector<std::string> keys() const {
    std::map<std::string, double> times;
    for (const std::string& key : program.keys())
      if (const auto record = plan.records.find(key); record != plan.records.end())
        times[key] += record->second.microseconds;
    std::vector<std::string> keys;
    for (const auto& [key, time] : times) keys.push_back(key);
    std::sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) { return times[a] > times[b]; });
    return keys;
  }

  void settle(const std::string& network, const std::string& key) {
    const plan::Record record = plan.records[key];
    std::string best = record.kernel;
    size_t tried = 0;
    for (const plan::Rival& rival : record.rivals) {
      if (rival.microseconds > record.microseconds * nearly || tried++ == most_rivals) break;
      if (rival.kernel == plan::apart) continue;
      try {
        DeviceProgram::Variant variant = program.variant(key, rival.kernel);
        const auto time = [&] { return program.time(1)[0]; };
        const auto other = [&] {
          program.exchange(variant);
          const double result = time();
          program.exchange(variant);
          return result;
        };
        other();
        const auto [now, then] = compare(time, other);
        if (then >= now * gain) continue;
        program.exchange(variant);
        best = rival.kernel;
      } catch (const Error& error) {
        // A tactic that finds no memory beside the others is not tried.
        if (error.code() != Code::resource) throw;
      }
    }
    if (best == record.kernel) return;
    prefer(plan.records[key], best);
    found[network + " " + key] = {best, 0, {}, source};
  }
};

/// The plan's graph as its GPU runs it.
ir::Graph device_graph(const plan::Plan& plan) {
  const cuda::Properties& device = cuda::Device::get(cuda::index_of(plan.device)).properties();
  return plan::device_graph(plan::planned_part(plan::concretise(plan.graph, plan.shapes)), plan, &device);
}

/// The steps that one was raced with; nullptr where there are none.
const plan::Rival* apart_of(const plan::Record& record) {
  for (const plan::Rival& rival : record.rivals)
    if (rival.kernel == plan::apart) return &rival;
  return nullptr;
}

/// Chains as one step inside the whole network: those that were not much faster so alone are tried apart.
struct ChainRanking {
  /// A program and the graph that it runs.
  struct Candidate {
    ir::Graph graph;
    DeviceProgram program;
    Candidate(const plan::Plan& plan, Team& team)
        : graph(device_graph(plan)), program(plan, graph, team, Branches::in_turn) {
      if (!program.has_host_steps()) program.time(3);
    }
    /// Those of steps that were raced with several in their place.
    std::set<std::string> keys(const plan::Records& records) const {
      std::set<std::string> keys;
      for (const std::string& key : program.keys())
        if (const auto record = records.find(key); record != records.end() && apart_of(record->second))
          keys.insert(key);
      return keys;
    }
  };

  plan::Plan& plan;
  Team& team;
  std::string network;
  uint64_t source;      // of all that was timed
  plan::Records found;  // chains that are better apart, by network and key

  void settle(std::unique_ptr<Candidate>& best, const std::string& key) {
    const plan::Record record = plan.records[key];
    if (apart_of(record)->microseconds > record.microseconds * nearly_for_chains) return;
    prefer(plan.records[key], plan::apart);
    try {
      auto other = std::make_unique<Candidate>(plan, team);
      const auto [now, then] =
          compare([&] { return best->program.time(1)[0]; }, [&] { return other->program.time(1)[0]; });
      if (then < now * gain) {
        best = std::move(other);
        found[network + " " + key] = {plan::apart, 0, {}, source};
        return;
      }
    } catch (const Error& error) {
      // No memory for both beside each other.
      if (error.code() != Code::resource) throw;
    }
    plan.records[key] = record;
  }
};

void settle_chains(plan::Plan& plan, plan::TimingCache& cache, Team& team) {
  const size_t count = plan::planned_part(plan::concretise(plan.graph, plan.shapes)).nodes.size();
  if (device_graph(plan).nodes.size() == count) return;
  auto best = std::make_unique<ChainRanking::Candidate>(plan, team);
  if (best->program.has_host_steps()) return;
  const std::vector<std::string>& steps = best->program.keys();
  ChainRanking ranking{plan, team, plan::network_key(steps) + " chains", plan::source_of(steps, plan.records), {}};
  const auto known = cache.records().find(ranking.network);
  const bool is_known = known != cache.records().end() && known->second.source == ranking.source;
  for (const std::string& key : best->keys(plan.records))
    if (!is_known) ranking.settle(best, key);
    else if (cache.records().count(ranking.network + " " + key)) prefer(plan.records[key], plan::apart);
  ranking.found[ranking.network] = {"settled", 0, {}, ranking.source};
  if (!is_known) cache.add(ranking.found);
}

}  // namespace

void rank(plan::Plan& plan, plan::TimingCache& cache, double budget_seconds, const Progress& progress) {
  if (budget_seconds == 0) return;
  const auto begin = Wall::now();
  Team team(plan.threads);
  settle_chains(plan, cache, team);
  const ir::Graph graph = device_graph(plan);
  if (graph.nodes.empty()) return;
  auto program = std::make_unique<DeviceProgram>(plan, graph, team, Branches::in_turn);
  if (program->has_host_steps() || program->keys().size() < 2) return;
  const std::string network = plan::network_key(program->keys());
  const uint64_t source = plan::source_of(program->keys(), plan.records);
  const auto known = cache.records().find(network);
  if (known != cache.records().end() && known->second.source == source) {
    plan.records[network] = known->second;
    for (const std::string& key : program->keys())
      if (const auto preferred = cache.records().find(network + " " + key); preferred != cache.records().end())
        prefer(plan.records[key], preferred->second.kernel);
    return;
  }
  if (progress && !progress("rank", 0, -1)) throw Error(Code::usage, "the build was cancelled");
  program->time(3);
  plan::Record record{"in turn", 0};
  try {
    auto beside = std::make_unique<DeviceProgram>(plan, graph, team, Branches::beside);
    if (beside->width() > 1) {
      beside->time(3);
      const auto [in_turn_ms, beside_ms] =
          compare([&] { return program->time(1)[0]; }, [&] { return beside->time(1)[0]; });
      record = {"in turn", in_turn_ms * 1e3, {{plan::beside, beside_ms * 1e3}}};
      if (beside_ms < in_turn_ms * gain) {
        record = {plan::beside, beside_ms * 1e3, {{"in turn", in_turn_ms * 1e3}}};
        program = std::move(beside);
      }
    }
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
  }
  const double limit = budget_seconds < 0 ? most_seconds : std::min(budget_seconds, most_seconds);
  Ranking ranking{plan, *program, {}, source};
  const std::vector<std::string> keys = ranking.keys();
  for (size_t at = 0; at < keys.size(); ++at) {
    const double spent = std::chrono::duration<double>(Wall::now() - begin).count();
    if (spent > limit) break;
    const double part = static_cast<double>(at) / static_cast<double>(keys.size());
    if (progress && !progress("rank", part, at ? spent / part - spent : -1))
      throw Error(Code::usage, "the build was cancelled");
    ranking.settle(network, keys[at]);
  }
  record.source = source;
  plan.records[network] = record;
  ranking.found[network] = record;
  cache.add(ranking.found);
}

std::pair<double, double> race(const plan::Plan& one, const plan::Plan& other) {
  constexpr int runs = 5;
  const ir::Graph graph = device_graph(one), other_graph = device_graph(other);
  Team team(one.threads);
  DeviceProgram first(one, graph, team), second(other, other_graph, team);
  first.time(runs), second.time(runs);
  return compare([&] { return median(first.time(runs)); }, [&] { return median(second.time(runs)); });
}

}  // namespace tenon::runtime
