#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <map>

#include "base/team.h"
#include "plan/timing_key.h"

namespace tenon::plan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int rounds = 5, more_rounds = 10;  // of all candidates, and then of those that may be the fastest
constexpr int visits = 3;                    // to each race, one behind all others; the first is the longest
constexpr double longest_again = 1e4;        // microseconds of a kernel, for another visit
constexpr double near = 1.25;                // times the least of all runs that a candidate's least may be for that

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::shared_ptr<std::byte> buffer(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes + 64, std::align_val_t(4096)));
  // Small finite values of any type: neither denormals nor NaN.
  for (size_t at = 0; at + 4 <= bytes; at += 4)
    *reinterpret_cast<uint32_t*>(memory + at) = 0x3d800000u + static_cast<uint32_t>(at * 2654435761u % 0x400000u);
  return {memory, [](std::byte* p) { ::operator delete(p, std::align_val_t(4096)); }};
}

size_t extent(const backends::Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
    last += std::max<int64_t>(0, operand.dims[axis] - 1) * operand.strides[axis];
  return static_cast<size_t>(last) * size_of(operand.dtype);
}

/// One kernel of a problem with the buffers it is timed on.
struct Candidate {
  std::string kernel;
  std::unique_ptr<backends::Step> step;
  uint64_t source;
  std::vector<double> times = {};
  double least() const { return *std::min_element(times.begin(), times.end()); }
  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

struct Run {
  backends::Step* step;
  std::byte* const* inputs;
  std::byte* const* outputs;
  Team* team;
  std::byte* workspace;
};

void work(void* context, int id) {
  const auto& run = *static_cast<Run*>(context);
  const Worker worker = run.team->worker(id, run.workspace);
  run.step->run(run.inputs, run.outputs, worker);
  worker.sync();
}

/// Both nodes of a pair one after the other, each by its own kernel: what the pair's kernel has to beat.
class ApartStep : public backends::Step {
 public:
  ApartStep(const backends::Pair& pair, const Records& records)
      : firsts_(pair.first.inputs.size()),
        seconds_(pair.second.inputs.size()),
        first_(choose(pair.first, records).make(pair.first)),
        second_(choose(pair.second, records).make(pair.second)),
        between_(buffer(extent(pair.first.outputs[0]))) {}
  size_t workspace_bytes() const override { return std::max(first_->workspace_bytes(), second_->workspace_bytes()); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    std::byte* between = between_.get();
    first_->run(inputs, &between, worker);
    worker.sync();
    std::array<std::byte*, 4> operands{between};
    for (size_t at = 1; at < seconds_; ++at) operands[at] = inputs[firsts_ + at - 1];
    second_->run(operands.data(), outputs, worker);
  }

 private:
  size_t firsts_, seconds_;
  std::unique_ptr<backends::Step> first_, second_;
  std::shared_ptr<std::byte> between_;
};

/// Times the candidates in turn, so that a slow moment of the machine hits all of them, and those that may be the
/// fastest for longer (`more`), as such a moment may last; returns the fastest by median.
Record race(const backends::Problem& problem, std::vector<Candidate>& candidates, Team& team, int more) {
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<std::byte*> inputs, outputs;
  for (const backends::Operand& operand : problem.inputs) {
    if (!operand || operand.constant) {
      inputs.push_back(operand ? const_cast<std::byte*>(operand.constant.data<std::byte>()) : nullptr);
      continue;
    }
    memory.push_back(buffer(extent(operand)));
    inputs.push_back(memory.back().get());
  }
  for (const backends::Operand& operand : problem.outputs) {
    memory.push_back(buffer(operand ? extent(operand) : 0));
    outputs.push_back(memory.back().get());
  }
  size_t workspace = 0;
  for (const Candidate& candidate : candidates) workspace = std::max(workspace, candidate.step->workspace_bytes());
  memory.push_back(buffer(workspace));
  std::byte* scratch = memory.back().get();
  const auto time = [&](Candidate& candidate) {
    Run run{candidate.step.get(), inputs.data(), outputs.data(), &team, scratch};
    const auto begin = Clock::now();
    team.run(work, &run);
    return seconds_since(begin) * 1e6;
  };
  for (int round = -1; round < rounds; ++round)
    for (Candidate& candidate : candidates) {
      const double took = time(candidate);
      if (round >= 0) candidate.times.push_back(took);
    }
  double least = candidates[0].least();
  for (const Candidate& candidate : candidates) least = std::min(least, candidate.least());
  std::vector<Candidate*> contenders;
  for (Candidate& candidate : candidates)
    if (candidate.least() <= least * near) contenders.push_back(&candidate);
  for (int round = 0; contenders.size() > 1 && round < more; ++round)
    for (Candidate* contender : contenders) contender->times.push_back(time(*contender));
  std::vector<Rival> timed;
  for (Candidate& candidate : candidates) timed.push_back({candidate.kernel, candidate.median(), candidate.source});
  return record_of(std::move(timed));
}

/// With each kernel's least time of both.
Record merged(const Record& one, const Record& other) {
  std::vector<Rival> timed = timed_of(one);
  for (Rival& rival : timed) {
    if (rival.kernel == other.kernel) rival.microseconds = std::min(rival.microseconds, other.microseconds);
    for (const Rival& again : other.rivals)
      if (rival.kernel == again.kernel) rival.microseconds = std::min(rival.microseconds, again.microseconds);
  }
  return record_of(std::move(timed));
}

class Tuner {
 public:
  Tuner(Plan& plan, const Records& known, double budget_seconds, const Progress& progress)
      : plan_(plan),
        known_(known),
        budget_seconds_(budget_seconds),
        progress_(progress),
        graph_(concretise(plan.graph, plan.shapes)),
        team_(plan.threads) {}

  void run() {
    if (!is_static(graph_)) return;
    layout_ = lay_out(graph_);
    // A moment in which another has a core may last longer than a race: all are held again after it.
    for (visit_ = 0; visit_ < visits; ++visit_) for_each_node([&](ir::NodeId id) { time_node(id); });
    // With the best kernel of each node known, pairs show whether one step for both is faster still.
    for (visit_ = 0; visit_ < visits; ++visit_) for_each_node([&](ir::NodeId id) { time_pair(id); });
  }

 private:
  template <class F>
  void for_each_node(const F& f) {
    for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id)
      if (layout_.runs[id]) f(id);
  }

  /// Whether there is something to find out and time for it; what is known of the candidates is taken over.
  bool is_open(const std::string& key, const Sources& candidates) {
    const bool in_time = budget_seconds_ < 0 || seconds_since(begin_) <= budget_seconds_;
    if (visit_ > 0) return in_time && fresh_.count(key) && plan_.records.at(key).microseconds <= longest_again;
    const auto of = [&](const Records& records) {
      const auto record = records.find(key);
      return record == records.end() ? Record() : current(record->second, candidates);
    };
    const Record known = joined(of(known_), of(plan_.records));
    const Sources rest = missing(candidates, known);
    const bool open = !rest.empty() && in_time;
    if (!known.kernel.empty() || open) plan_.records[key] = known;
    if (open) fresh_[key] = rest;
    return open;
  }

  /// Those that are not known from before; on later visits of them those that may yet be the fastest.
  bool takes_part(const std::string& key, const std::string& kernel) const {
    if (!fresh_.at(key).count(kernel)) return false;
    if (visit_ == 0) return true;
    const Record& record = plan_.records.at(key);
    return kernel == record.kernel || std::any_of(record.rivals.begin(), record.rivals.end(), [&](const Rival& rival) {
             return rival.kernel == kernel && rival.microseconds <= record.microseconds * near;
           });
  }

  void keep(const std::string& key, Record record) {
    Record& own = plan_.records[key];
    own = visit_ == 0 ? joined(own, record) : merged(own, record);
  }

  void time_node(ir::NodeId id) {
    const backends::Problem problem = problem_of(graph_, id, layout_, plan_.threads, plan_);
    const std::string key = backends::signature(problem);
    std::vector<const backends::Kernel*> kernels;
    Sources sources;
    for (const backends::Kernel* kernel : backends::kernels_for(problem.node->op))
      if (kernel != &backends::reference_kernel() && !kernel->refuses(problem)) {
        kernels.push_back(kernel);
        sources[kernel->name] = source_of(*kernel);
      }
    if (kernels.size() < 2 || !is_open(key, sources)) return;
    std::erase_if(kernels, [&](const backends::Kernel* kernel) { return !takes_part(key, kernel->name); });
    // One alone is timed where others are known; it is not timed again as the fastest of new ones.
    if (kernels.empty() || (kernels.size() == 1 && fresh_.at(key).size() > 1)) return;
    const double spent = seconds_since(begin_);
    const double done = (visit_ + static_cast<double>(id) / static_cast<double>(graph_.nodes.size())) / visits;
    if (progress_ && !progress_("tune", done, done > 0 ? spent / done - spent : -1))
      throw Error(Code::usage, "the build was cancelled");
    std::vector<Candidate> candidates;
    for (const backends::Kernel* kernel : kernels)
      candidates.push_back({kernel->name, kernel->make(problem), source_of(*kernel)});
    keep(key, race(problem, candidates, team_, visit_ == 0 ? more_rounds : 0));
  }

  void time_pair(ir::NodeId id) {
    const ir::NodeId second = second_of_pair(graph_, id);
    if (second == ir::no_node || !layout_.runs[second]) return;
    const backends::Pair pair{problem_of(graph_, id, layout_, plan_.threads, plan_),
                              problem_of(graph_, second, layout_, plan_.threads, plan_)};
    const std::string key = backends::signature(pair);
    const backends::PairKernel* kernel = backends::pair_kernel(pair);
    if (!kernel) return;
    const Sources sources{{apart, source_of(choose(pair.first, plan_.records), choose(pair.second, plan_.records))},
                          {kernel->name, backends::source_hash(kernel->file, kernel->family)}};
    if (!is_open(key, sources)) return;
    std::vector<Candidate> candidates;
    if (takes_part(key, apart))
      candidates.push_back({apart, std::make_unique<ApartStep>(pair, plan_.records), sources.at(apart)});
    if (takes_part(key, kernel->name))
      candidates.push_back({kernel->name, kernel->make(pair), sources.at(kernel->name)});
    if (candidates.empty() || (candidates.size() == 1 && fresh_.at(key).size() > 1)) return;
    keep(key, race(backends::operands_of(pair), candidates, team_, visit_ == 0 ? more_rounds : 0));
  }

  Plan& plan_;
  const Records& known_;
  const double budget_seconds_;
  const Progress& progress_;
  const ir::Graph graph_;
  Team team_;
  const Clock::time_point begin_ = Clock::now();
  Layout layout_;
  std::map<std::string, Sources> fresh_;  // by key, candidates that are not known from before
  int visit_ = 0;
};

}  // namespace

void tune(Plan& plan, const Records& known, double budget_seconds, const Progress& progress) {
  Tuner(plan, known, budget_seconds, progress).run();
}

}  // namespace tenon::plan
