// SPDX-License-Identifier: Apache-2.0
#include "compile/rank.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "backends/backend.h"
#include "compile/measure.h"
#include "plan/timing_key.h"

namespace tenon::compile {
namespace {

using backends::StreamExecutable;
using plan::Branches;
using plan::prefer;
using Wall = std::chrono::steady_clock;
constexpr double gain = 0.998;             // of the whole network's time, for a change
constexpr double nearly = 1.15;            // times the best alone, for a tactic that is tried
constexpr double nearly_for_groups = 1.5;  // the same of groups that run unfused
constexpr size_t most_candidates = 4;      // of a step
constexpr double most_seconds = 5;
constexpr double warm_seconds = 0.2;  // of work, until clocks are what they stay at

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// What was ranked with the kernels as they are; nothing where they were others.
std::optional<plan::Record> known_of(const plan::TimingCache& cache, const std::string& key, uint64_t source) {
  const auto known = cache.records().find(key);
  if (known == cache.records().end()) return std::nullopt;
  std::vector<plan::Candidate> timed = plan::timed_of(known->second);
  std::erase_if(timed, [&](const plan::Candidate& one) { return one.source != source; });
  if (timed.empty()) return std::nullopt;
  return plan::Record{timed[0].kernel, timed[0].microseconds, {}, source};
}

/// A plan made ready to run as a whole on its device.
struct CandidateProgram {
  std::unique_ptr<backends::Executable> whole;
  StreamExecutable* streams;
  CandidateProgram(const plan::Plan& plan, ThreadPool& threads, Branches branches)
      : whole(backends::backend(plan.device)
                  .compile(plan::schedule(plan, device_graph(plan), threads.threads(), branches), threads)
                  ->executable(threads)),
        streams(whole->streams()) {}

  static ir::Graph device_graph(const plan::Plan& plan) {
    return plan::device_graph(plan::planned_part(plan::concretise(plan.graph, plan.shapes)), plan);
  }
  std::vector<std::string> keys() const { return plan::keys_of(whole->schedule()); }
  double milliseconds() const { return streams->time(1)[0]; }
  /// A processor that rests runs faster for a while than under lasting load, the more so the more it computes.
  void warm() const {
    const auto begin = Wall::now();
    while (std::chrono::duration<double>(Wall::now() - begin).count() < warm_seconds) milliseconds();
  }
};

struct Ranking {
  plan::Plan& plan;
  CandidateProgram& program;
  uint64_t source;           // of all that was timed
  bool steady = true;        // times so far
  plan::Records found = {};  // tactics preferred, by network and key

  /// Keys of steps with candidates, those that take most time first.
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
    for (const plan::Candidate& candidate : record.candidates) {
      if (candidate.microseconds > record.microseconds * nearly || tried++ == most_candidates) break;
      if (candidate.kernel == plan::unfused) continue;
      try {
        const auto variant = program.streams->variant(key, candidate.kernel);
        const auto time = [&] { return program.milliseconds(); };
        const auto other = [&] {
          program.streams->exchange(*variant);
          const double result = time();
          program.streams->exchange(*variant);
          return result;
        };
        other();
        const Comparison times = compare(time, other);
        steady = steady && times.steady;
        if (!times.steady || times.other >= times.one * gain) continue;
        program.streams->exchange(*variant);
        best = candidate.kernel;
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

/// The steps that one was timed beside; nullptr where there are none.
const plan::Candidate* unfused_of(const plan::Record& record) {
  for (const plan::Candidate& candidate : record.candidates)
    if (candidate.kernel == plan::unfused) return &candidate;
  return nullptr;
}

/// Groups as one step inside the whole network: those that were not much faster so alone are tried unfused.
struct GroupRanking {
  plan::Plan& plan;
  ThreadPool& threads;
  std::string network = {};
  uint64_t source = 0;       // of all that was timed
  bool steady = true;        // times so far
  plan::Records found = {};  // groups that are better unfused, by network and key

  std::unique_ptr<CandidateProgram> candidate() const {
    auto made = std::make_unique<CandidateProgram>(plan, threads, Branches::sequential);
    if (!made->streams->has_host_steps()) made->streams->time(3);
    return made;
  }

  /// Keys of steps that were timed beside several in their place.
  std::set<std::string> keys(const CandidateProgram& program) const {
    std::set<std::string> keys;
    for (const std::string& key : program.keys())
      if (const auto record = plan.records.find(key); record != plan.records.end() && unfused_of(record->second))
        keys.insert(key);
    return keys;
  }

  void settle(std::unique_ptr<CandidateProgram>& best, const std::string& key) {
    const plan::Record record = plan.records[key];
    if (unfused_of(record)->microseconds > record.microseconds * nearly_for_groups) return;
    prefer(plan.records[key], plan::unfused);
    try {
      auto other = candidate();
      best->warm();
      const Comparison times =
          compare([&] { return best->milliseconds(); }, [&] { return other->milliseconds(); });
      steady = steady && times.steady;
      if (times.steady && times.other < times.one * gain) {
        best = std::move(other);
        found[network + " " + key] = {plan::unfused, 0, {}, source};
        return;
      }
    } catch (const Error& error) {
      // No memory for both at once.
      if (error.code() != Code::resource) throw;
    }
    plan.records[key] = record;
  }
};

void settle_groups(plan::Plan& plan, plan::TimingCache& cache, ThreadPool& threads) {
  const size_t count = plan::planned_part(plan::concretise(plan.graph, plan.shapes)).nodes.size();
  if (CandidateProgram::device_graph(plan).nodes.size() == count) return;
  GroupRanking ranking{plan, threads};
  auto best = ranking.candidate();
  if (best->streams->has_host_steps()) return;
  ranking.network = plan::network_key(best->keys()) + " groups";
  ranking.source = plan::source_of(best->keys(), plan.records);
  const bool is_known = known_of(cache, ranking.network, ranking.source).has_value();
  for (const std::string& key : ranking.keys(*best))
    if (!is_known) ranking.settle(best, key);
    else if (known_of(cache, ranking.network + " " + key, ranking.source)) prefer(plan.records[key], plan::unfused);
  ranking.found[ranking.network] = {"settled", 0, {}, ranking.source};
  if (!is_known && ranking.steady) cache.add(ranking.found);
}

/// Whether branches run at the same time, by measurement; `program` becomes the faster one. `steady` becomes false
/// where times differ too much to tell.
plan::Record settle_branches(const plan::Plan& plan, ThreadPool& threads, std::unique_ptr<CandidateProgram>& program,
                             bool& steady) {
  plan::Record record{plan::sequential, 0};
  try {
    auto other = std::make_unique<CandidateProgram>(plan, threads, Branches::concurrent);
    if (other->streams->width() < 2) return record;
    other->streams->time(3);
    program->warm();
    const Comparison times =
        compare([&] { return program->milliseconds(); }, [&] { return other->milliseconds(); });
    steady = times.steady;
    record = {plan::sequential, times.one * 1e3, {{plan::concurrent, times.other * 1e3}}};
    if (times.other < times.one * gain) {
      prefer(record, plan::concurrent);
      program = std::move(other);
    }
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
  }
  return record;
}

}  // namespace

void rank(plan::Plan& plan, plan::TimingCache& cache, double budget_seconds, const Progress& progress) {
  if (budget_seconds == 0 || !backends::backend(plan.device).capabilities(plan.device).concurrent) return;
  const auto begin = Wall::now();
  ThreadPool threads(plan.threads, Denormals::flushed, Helpers::all);
  if (CandidateProgram::device_graph(plan).nodes.empty()) return;
  settle_groups(plan, cache, threads);
  auto program = std::make_unique<CandidateProgram>(plan, threads, Branches::sequential);
  if (program->streams->has_host_steps() || program->keys().size() < 2) return;
  const std::string network = plan::network_key(program->keys());
  const uint64_t source = plan::source_of(program->keys(), plan.records);
  if (const auto known = known_of(cache, network, source)) {
    plan.records[network] = *known;
    for (const std::string& key : program->keys())
      if (const auto preferred = known_of(cache, network + " " + key, source))
        prefer(plan.records[key], preferred->kernel);
    return;
  }
  if (progress && !progress("rank", 0, -1)) throw Error(Code::usage, "the build was cancelled");
  program->streams->time(3);
  bool steady = true;
  plan::Record record = settle_branches(plan, threads, program, steady);
  const double limit = budget_seconds < 0 ? most_seconds : std::min(budget_seconds, most_seconds);
  Ranking ranking{plan, *program, source, steady};
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
  if (ranking.steady) cache.add(ranking.found);
}

std::pair<double, double> time_both(const plan::Plan& one, const plan::Plan& other) {
  constexpr int runs = 5;
  ThreadPool threads(one.threads, Denormals::flushed, Helpers::all);
  const CandidateProgram first(one, threads, Branches::as_recorded), second(other, threads, Branches::as_recorded);
  first.streams->time(runs), second.streams->time(runs);
  const Comparison times = compare([&] { return median(first.streams->time(runs)); },
                                   [&] { return median(second.streams->time(runs)); });
  return {times.one, times.other};
}

}  // namespace tenon::compile
