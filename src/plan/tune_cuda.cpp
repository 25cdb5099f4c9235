#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "backends/cuda/kernel.h"
#include "backends/cuda/timing.h"
#include "base/hash.h"
#include "plan/chains.h"
#include "plan/timing_key.h"

namespace tenon::plan {
namespace {

using cuda::Address;
using Wall = std::chrono::steady_clock;
constexpr int rounds = 7;
constexpr double hopeless = 1.25;           // times the best of the first round: not timed again
constexpr double graph_microseconds = 400;  // of work in one recording
constexpr size_t alignment = 1024;

size_t extent(const backends::Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
    last += std::max<int64_t>(0, operand.dims[axis] - 1) * operand.strides[axis];
  return static_cast<size_t>(last) * size_of(operand.dtype);
}

size_t padded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Bytes that are small random numbers as f32 and as f16.
void fill(cuda::Buffer& pool) {
  std::vector<uint32_t> words(size_t{1} << 20);
  uint32_t state = 1;
  for (uint32_t& word : words) {
    state = state * 1664525u + 1013904223u;
    word = 0x38003800u | (state >> 4 & 0x03ff03ffu) | (state & 0x80000000u) | (state >> 3 & 0x8000u);
  }
  for (size_t at = 0; at < pool.bytes(); at += words.size() * 4)
    pool.upload(words.data(), std::min(words.size() * 4, pool.bytes() - at), at);
}

struct Contest {
  std::string key;
  backends::Problem problem;
  std::vector<cuda::Choice> choices;  // that are to be timed
  Record known;                       // of others
  double apart = 0;                   // microseconds of the steps that one would replace; 0: there are none
};

struct Candidate {
  const cuda::Choice* choice;
  std::unique_ptr<cuda::Step> step;
  cuda::Recording recording;
  int repeats = 1;
  std::vector<double> times;
  double median() const {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// Places of a problem's operands in the pool; `bytes` is what they take together.
struct Operands {
  std::vector<Address> inputs, outputs;
  size_t bytes = 0;
  Operands(const backends::Problem& problem, Address pool) {
    const auto place = [&](const backends::Operand& operand) -> Address {
      if (!operand) return 0;
      const Address at = pool + bytes;
      bytes += padded(extent(operand));
      return at;
    };
    for (const backends::Operand& operand : problem.inputs) inputs.push_back(place(operand));
    for (const backends::Operand& operand : problem.outputs) outputs.push_back(place(operand));
  }
};

Sources sources_of(const std::vector<cuda::Choice>& choices) {
  Sources sources;
  for (const cuda::Choice& choice : choices) sources[choice.tactic.name] = cuda::source_of(choice);
  return sources;
}

/// With the time of the steps that one would replace, which is no measurement of its own.
Record with_apart(const Record& record, double microseconds) {
  return microseconds > 0 ? joined(record, {apart, microseconds}) : record;
}

/// Whom a fault while a candidate is timed is blamed on.
std::string blamed(const Contest& contest, const cuda::Choice& choice) {
  return contest.problem.node->op + " " + contest.problem.node->label() + ", kernel \"" + choice.tactic.name + "\"";
}

/// The candidates that can be made and run, each recorded with its first time; those that this GPU cannot run go to
/// `timed`.
std::vector<Candidate> start(const Contest& contest, cuda::Device& device, const cuda::Clock& clock,
                             const Operands& operands, std::vector<Rival>& timed) {
  std::vector<Candidate> candidates;
  for (const cuda::Choice& choice : contest.choices) try {
      Candidate candidate{&choice, choice.kernel->make(contest.problem, device, choice.tactic), {}, 1, {}};
      if (!cuda::fits_workspace(*candidate.step)) continue;
      cuda::Buffer workspace(candidate.step->workspace_bytes(), "the workspace of a kernel");
      const cuda::Launch launch{clock.stream(), operands.inputs.data(), operands.outputs.data(), workspace.address()};
      const auto record = [&](int repeats) {
        candidate.repeats = repeats;
        candidate.recording = cuda::Recording(clock.stream(), [&] {
          for (int at = 0; at < repeats; ++at) candidate.step->enqueue(launch);
        });
      };
      record(1);
      clock.time(candidate.recording);
      const double once = clock.time(candidate.recording);
      record(std::clamp(static_cast<int>(graph_microseconds / std::max(once, 1.0)), 2, 50));
      clock.time(candidate.recording);
      candidate.times.push_back(clock.time(candidate.recording) / candidate.repeats);
      // Workspaces are for one candidate at a time; those that need one are recorded anew when they run again.
      if (candidate.step->workspace_bytes() > 0) {
        for (int round = 1; round < rounds; ++round)
          candidate.times.push_back(clock.time(candidate.recording) / candidate.repeats);
        candidate.recording = {};
      }
      candidates.push_back(std::move(candidate));
    } catch (const cuda::Fault& fault) {
      device.give_up(fault, blamed(contest, choice));
    } catch (const Error& error) {
      // A tactic that does not fit this GPU, or finds no memory, is out; the plain kernels remain.
      if (error.code() == Code::unsupported) timed.push_back({choice.tactic.name, never, cuda::source_of(choice)});
      else if (error.code() != Code::resource) throw;
    }
  return candidates;
}

Record race(const Contest& contest, cuda::Device& device, const cuda::Clock& clock, const Operands& operands) {
  std::vector<Rival> timed;
  std::vector<Candidate> candidates = start(contest, device, clock, operands, timed);
  double best = contest.known.kernel.empty() ? never : contest.known.microseconds;
  for (const Candidate& candidate : candidates) best = std::min(best, candidate.times.front());
  for (int round = 1; round < rounds; ++round)
    for (Candidate& candidate : candidates) try {
        if (candidate.recording && candidate.times.front() <= best * hopeless)
          candidate.times.push_back(clock.time(candidate.recording) / candidate.repeats);
      } catch (const cuda::Fault& fault) {
        device.give_up(fault, blamed(contest, *candidate.choice));
      }
  for (const Candidate& candidate : candidates)
    timed.push_back({candidate.choice->tactic.name, candidate.median(), cuda::source_of(*candidate.choice)});
  const Record found = timed.empty() ? Record() : record_of(std::move(timed));
  const Record record = with_apart(joined(contest.known, found), contest.apart);
  if (record.kernel.empty() || record.microseconds >= never)
    throw Error(Code::unsupported, "no kernel runs on this GPU",
                {.where = "node " + contest.problem.node->label(), .why = contest.key});
  return record;
}

/// Races for a plan, of one graph after the other.
class DeviceTuner {
 public:
  DeviceTuner(Plan& plan, const Records& known, double budget_seconds, const Progress& progress)
      : plan_(plan),
        known_(known),
        budget_seconds_(budget_seconds),
        progress_(progress),
        device_(cuda::Device::get(cuda::index_of(plan.device))) {}

  /// A problem: what is known of its candidates, and a race to come of those that remain.
  void enter(backends::Problem problem, double apart) {
    const std::string key = device_key(device_.properties(), problem);
    if (!entered_.insert(key).second) return;
    std::vector<cuda::Choice> choices = cuda::choices(problem, device_.properties());
    if (choices.size() + (apart > 0) < 2) return;
    const Sources sources = sources_of(choices);
    const auto of = [&](const Records& records, const std::string& name) {
      const auto record = records.find(name);
      return record == records.end() ? Record() : current(record->second, sources);
    };
    Record known = joined(of(known_, key), of(plan_.records, key));
    if (!plan_.vendor) {
      backends::Problem with_vendors = problem;
      with_vendors.vendor = true;
      known = joined(of(known_, device_key(device_.properties(), with_vendors)), known);
    }
    if (!known.kernel.empty()) plan_.records[key] = with_apart(known, apart);
    const Sources rest = missing(sources, known);
    std::erase_if(choices, [&](const cuda::Choice& choice) { return !rest.count(choice.tactic.name); });
    if (!rest.empty()) contests_[key] = {key, std::move(problem), std::move(choices), std::move(known), apart};
  }

  /// The races that were entered, as far as time allows.
  void run() {
    if (contests_.empty() || budget_seconds_ == 0) return;
    report("compile", 0, -1);
    std::vector<cuda::Source> sources;
    size_t bytes = 0;
    for (const auto& [key, contest] : contests_) {
      for (const cuda::Choice& choice : contest.choices)
        sources.insert(sources.end(), choice.tactic.sources.begin(), choice.tactic.sources.end());
      bytes = std::max(bytes, Operands(contest.problem, 0).bytes);
    }
    device_.prepare(sources);
    cuda::Buffer pool(bytes, "operands to time kernels on");
    fill(pool);
    const cuda::Clock clock;
    size_t done = 0;
    for (const auto& [key, contest] : contests_) {
      const double spent = std::chrono::duration<double>(Wall::now() - begin_).count();
      if (budget_seconds_ >= 0 && spent > budget_seconds_) break;
      const double part = static_cast<double>(done) / static_cast<double>(contests_.size());
      report("tune", part, done ? spent / part - spent : -1);
      plan_.records[key] = race(contest, device_, clock, Operands(contest.problem, pool.address()));
      ++done;
    }
    contests_.clear();
  }

  const cuda::Properties& properties() const { return device_.properties(); }

 private:
  void report(const char* stage, double part, double left) const {
    if (progress_ && !progress_(stage, part, left)) throw Error(Code::usage, "the build was cancelled");
  }

  Plan& plan_;
  const Records& known_;
  const double budget_seconds_;
  const Progress& progress_;
  const Wall::time_point begin_ = Wall::now();
  cuda::Device& device_;
  std::map<std::string, Contest> contests_;
  std::set<std::string> entered_;  // keys
};

/// By the names of their results: what a graph's chains take as steps of their own; nothing where one was not timed.
std::map<std::string, double> times_apart(const ir::Graph& graph, const std::vector<Chain>& chains, const Plan& plan,
                                          const cuda::Properties& device) {
  const Layout layout = lay_out(graph, false, true);
  std::map<std::string, double> times;
  for (const Chain& chain : chains) {
    double sum = 0;
    bool all = true;
    for (const ir::NodeId id : chain.nodes) {
      const Record* record = device_record(plan, device_problem_of(graph, id, layout, plan), &device);
      all = all && record;
      sum += record ? record->microseconds : 0;
    }
    if (all) times[result_of(graph, chain)] = sum;
  }
  return times;
}

}  // namespace

std::string device_key(const cuda::Properties& device, const backends::Problem& problem) {
  return device.name + (problem.vendor ? " | " : " own| ") + backends::signature(problem);
}

std::string network_key(const std::vector<std::string>& keys) {
  std::string all;
  for (const std::string& key : keys) all += key + '\n';
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash64(std::as_bytes(std::span(all)))));
  return std::string("network ") + hash;
}

backends::Problem device_problem_of(const ir::Graph& graph, ir::NodeId node, const Layout& layout, const Plan& plan) {
  backends::Problem problem = problem_of(graph, node, layout, 0, plan);
  problem.tf32 = plan.precision == "tf32";
  problem.vendor = plan.vendor;
  return problem;
}

const Record* device_record(const Plan& plan, const backends::Problem& problem, const cuda::Properties* device) {
  if (device) {
    const auto record = plan.records.find(device_key(*device, problem));
    return record == plan.records.end() ? nullptr : &record->second;
  }
  const std::string key = (problem.vendor ? "| " : " own| ") + backends::signature(problem);
  for (const auto& [name, record] : plan.records)
    if (name.ends_with(key)) return &record;
  return nullptr;
}

void tune_cuda(Plan& plan, const Records& known, double budget_seconds, const Progress& progress) {
  const ir::Graph graph = planned_part(concretise(plan.graph, plan.shapes));
  DeviceTuner tuner(plan, known, budget_seconds, progress);
  const Layout layout = lay_out(graph, false, true);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    if (layout.runs[id]) tuner.enter(device_problem_of(graph, id, layout, plan), 0);
  tuner.run();
  // With the best kernels of single nodes known, chains show whether one step for each is faster still.
  const std::vector<Chain> chains = chains_of(graph);
  if (chains.empty()) return;
  const std::map<std::string, double> times = times_apart(graph, chains, plan, tuner.properties());
  const ir::Graph fused = with_chains(graph, chains);
  const Layout fused_layout = lay_out(fused, false, true);
  for (const ir::Value& value : fused.values)
    if (const auto apart = times.find(value.name); apart != times.end())
      tuner.enter(device_problem_of(fused, value.producer, fused_layout, plan), apart->second);
  tuner.run();
}

}  // namespace tenon::plan
