// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/timer.h"

#include <tenon/error.h>

#include <algorithm>

#include "backends/cuda/runtime/kernel.h"
#include "backends/cuda/runtime/timing.h"
#include "backends/cuda/runtime/timing_memory.h"

namespace tenon::cuda {
namespace {

constexpr double graph_microseconds = 400;  // of work in one recording
constexpr size_t alignment = 1024;

size_t padded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Places of a problem's operands in memory, inputs first; `bytes` is what they take together.
struct Operands {
  std::vector<Address> inputs, outputs;
  size_t bytes = 0, input_bytes = 0;
  Operands() = default;
  Operands(const Problem& problem, Address memory) {
    const auto place = [&](const Operand& operand) -> Address {
      if (!operand) return 0;
      const Address at = memory + bytes;
      bytes += padded(backends::extent(operand));
      return at;
    };
    for (const Operand& operand : problem.inputs) inputs.push_back(place(operand));
    input_bytes = bytes;
    for (const Operand& operand : problem.outputs) outputs.push_back(place(operand));
  }
};

struct Candidate {
  size_t index;  // among the tactics that were asked for
  std::string name;
  std::unique_ptr<Step> step;
  Recording recording = {};
  int repeats = 1;
};

class DeviceTimer : public backends::TacticTimer {
 public:
  explicit DeviceTimer(int device) : device_(Device::get(device)) {}

  void prepare(std::span<const Problem* const> problems, const backends::Prepared& prepared) override {
    std::vector<Source> sources;
    size_t bytes = 0;
    for (const Problem* problem : problems) {
      for (const Choice& choice : choices(*problem, device_.properties()))
        sources.insert(sources.end(), choice.tactic.sources.begin(), choice.tactic.sources.end());
      bytes = std::max(bytes, Operands(*problem, 0).bytes);
    }
    if (!device_.prepare(sources, prepared)) return;
    candidates_.clear();
    memory_.reserve(bytes);
  }

  std::vector<size_t> begin(const Problem& problem, std::span<const std::string> tactics) override {
    candidates_.clear();
    unable_.clear();
    node_ = problem.node->op + " " + problem.node->label();
    operands_ = Operands(problem, memory_.address());
    memory_.renew(operands_.input_bytes, clock_.stream());
    for (size_t at = 0; at < tactics.size(); ++at) attempt(tactics[at], [&] { make(problem, at, tactics[at]); });
    reserve_workspace();
    // Those that cannot be recorded are out; the plain kernels remain.
    std::erase_if(candidates_,
                  [&](Candidate& candidate) { return !attempt(candidate.name, [&] { record(candidate); }); });
    std::vector<size_t> ready;
    for (const Candidate& candidate : candidates_) ready.push_back(candidate.index);
    return ready;
  }

  std::vector<std::string> unable() const override { return unable_; }

  double run(size_t tactic) override {
    const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&](const Candidate& candidate) { return candidate.index == tactic; });
    double microseconds = 0;
    attempt(found->name, [&] { microseconds = clock_.time(found->recording) / found->repeats; });
    return microseconds;
  }

 private:
  /// False where a tactic does not fit this GPU, or finds no memory.
  template <class Work>
  bool attempt(const std::string& tactic, const Work& work) try {
    work();
    return true;
  } catch (const Fault& fault) {
    device_.give_up(fault, node_ + ", kernel \"" + tactic + "\"");
  } catch (const Error& error) {
    if (error.code() == Code::unsupported) unable_.push_back(tactic);
    else if (error.code() != Code::resource) throw;
    return false;
  }

  void make(const Problem& problem, size_t index, const std::string& name) {
    const Choice choice = choose(problem, device_.properties(), name);
    Candidate candidate{index, name, choice.kernel->make(problem, device_, choice.tactic)};
    if (fits_workspace(*candidate.step)) candidates_.push_back(std::move(candidate));
  }

  /// One for all, as they run one after the other; those that want more than there is are out.
  void reserve_workspace() {
    const auto wants = [](const Candidate& a) { return a.step->workspace_bytes(); };
    workspace_ = Buffer();
    while (!candidates_.empty()) {
      const size_t most = wants(*std::max_element(candidates_.begin(), candidates_.end(),
                                                  [&](const auto& a, const auto& b) { return wants(a) < wants(b); }));
      if (most == 0 || attempt("", [&] { workspace_ = Buffer(most, "the workspace of a kernel"); })) return;
      std::erase_if(candidates_, [&](const Candidate& candidate) { return wants(candidate) == most; });
    }
  }

  void record(Candidate& candidate) {
    const Launch launch{clock_.stream(), operands_.inputs.data(), operands_.outputs.data(), workspace_.address()};
    const auto again = [&](int repeats) {
      candidate.repeats = repeats;
      candidate.recording = Recording(clock_.stream(), [&] {
        for (int at = 0; at < repeats; ++at) candidate.step->enqueue(launch);
      });
    };
    again(1);
    clock_.time(candidate.recording);
    const double once = clock_.time(candidate.recording);
    again(std::clamp(static_cast<int>(graph_microseconds / std::max(once, 1.0)), 2, 50));
    clock_.time(candidate.recording);
  }

  Device& device_;
  const Clock clock_;
  TimingMemory memory_;
  Buffer workspace_;
  Operands operands_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> unable_;
  std::string node_;  // whom a fault is blamed on
};

}  // namespace

std::unique_ptr<backends::TacticTimer> make_timer(int device) { return std::make_unique<DeviceTimer>(device); }

}  // namespace tenon::cuda
