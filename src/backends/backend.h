// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/executable.h"
#include "backends/goal.h"
#include "backends/limits.h"
#include "backends/problem.h"
#include "backends/reason.h"
#include "backends/schedule.h"
#include "base/thread_pool.h"
#include "passes/groups.h"
#include "passes/pass.h"

struct tenon_custom_op;

/// The only door to what computes: a backend is a folder beside this file and one registration.
namespace tenon::backends {

/// What a device can do, as far as others ask.
struct Capabilities {
  std::string isa;                     // what its kernels are compiled for
  Precision floats = Precision::fp32;  // the fastest that needs no data
  bool fast_integers = true;           // products of 8-bit integers are no slower than those of floats
  bool rounds_layers = false;          // each layer may round its operands to bf16 by itself
  bool host_memory = true;             // its memory is the host's
  bool concurrent = false;             // steps overlap: the whole takes less than their sum
  bool observable = true;              // executables run with observers
  bool parts = false;                  // of a graph whose sizes depend on data it runs what stands before those sizes
  bool blocks = false;                 // it may run bodies as steps, where all their sizes are known
  bool compiles = false;               // kernels are compiled when they are first wanted
  bool deconvolution_rows = false;  // INT8 transposed convolutions are integer convolutions of each phase of the rows
};

/// One of the nodes that a group stands for, and the tactic that runs it alone.
struct Member {
  Problem problem;
  std::string tactic;
  std::vector<ir::ValueId> inputs, outputs;  // of the group's members
};

/// So many of so many are ready; false: the rest is not wanted.
using Prepared = std::function<bool(size_t ready, size_t of)>;

/// Times tactics of problems on a device, on operands of its own.
class TacticTimer {
 public:
  virtual ~TacticTimer() = default;
  /// Makes ready what all of these will need. Tells how much of that is done, on the thread of the caller, and ends
  /// early where it is told false.
  virtual void prepare(std::span<const Problem* const> problems, const Prepared& prepared) = 0;
  /// Takes up tactics of a problem and runs each once. Those that cannot be made here, for want of memory, are left
  /// out: returns the indices of the others.
  virtual std::vector<size_t> begin(const Problem& problem, std::span<const std::string> tactics) = 0;
  /// Whether one of a group's tactics may be `unfused`: else the sum of its members' times stands for that.
  virtual bool times_members() const { return false; }
  /// What `unfused` is of the problem that begins next.
  virtual void set_members(std::vector<Member>) {}
  /// Of the last begin(): those that the device does not run, however much memory there is.
  virtual std::vector<std::string> unable() const { return {}; }
  /// Microseconds of one run.
  virtual double run(size_t tactic) = 0;
  /// Whether threads of the last run were taken from their cores.
  virtual bool disturbed() const { return false; }
};

/// How often candidates are timed. Moments in which a core is taken away last longer than a round.
struct TimingPolicy {
  int repeats, more_repeats;  // of all candidates, and then of those that may be the fastest
  int rounds;                 // to each problem, one behind all others
  double near;                // times the least time of all that a candidate's least may be, to be timed again
  bool by_least = false;      // a candidate's time is its least one, not its median
  double usual_seconds = 0;   // that the first round takes for a candidate; 0: they differ too much
};

/// What a device does while it works: medians over samples; negative where nobody says.
struct Activity {
  int samples = 0;
  double utilisation_percent = -1, sm_clock_mhz = -1, memory_clock_mhz = -1, watts = -1, celsius = -1;
  int64_t memory_used_bytes = -1, memory_total_bytes = -1;  // of the whole device, by all processes
  std::string driver;
};

/// Samples a device in a thread of its own from the start until read.
class Meter {
 public:
  virtual ~Meter() = default;
  /// Stops the sampling. `why` is empty unless there is nothing to read.
  virtual Activity read(std::string& why) = 0;
};

/// Compiled kernels written to, or taken from, a file.
struct KernelCount {
  int64_t kernels = 0, bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Throws Error(usage) for an index that is not there, Error(unsupported) where the backend cannot be used.
  virtual void require(const Device& device) const = 0;
  bool has(const Device& device) const;
  virtual Capabilities capabilities(const Device& device) const = 0;
  /// Throws Error(unsupported) naming `where` for a precision in which the device does not compute.
  virtual void require(const Device& device, Precision precision, const std::string& where) const = 0;

  /// Brings an optimised graph into the form that its kernels are for.
  virtual std::vector<passes::PassRecord> lower(ir::Graph& graph, const Device& device, const Goal& goal,
                                                const std::vector<std::string>& skip) const = 0;
  /// Takes apart what only other backends have kernels for, in a graph that was lowered for one of them.
  virtual void take_over(ir::Graph& graph, const Device& device) const = 0;
  /// Changes a lowered graph towards another precision; what cannot be had without the model stays as `goal` has it.
  /// Returns what it is now.
  virtual Goal retarget(ir::Graph& graph, const Goal& goal, Precision wanted,
                        const std::vector<std::string>& skip) const = 0;
  /// The groups that it may run as one step: those that it has kernels for.
  virtual std::span<const passes::GroupPattern> groups() const { return {}; }

  /// What it asks of the host for the steps that run there.
  virtual Goal host_goal(const Goal& goal) const { return {.strict = goal.strict}; }
  /// Adds to a problem what its kernels ask of the goal.
  virtual void constrain(Problem& problem, const Goal& goal) const = 0;
  /// The key of a problem's measurements; without a device, what they end with on each.
  virtual std::string key(const Problem& problem, const Device* device) const = 0;
  /// Everything that takes the problem, best guess first.
  virtual std::vector<std::string> tactics(const Problem& problem, const Device& device) const = 0;
  /// Of each of these, the hash of what it is made of; 0 where the build does not know.
  virtual std::vector<uint64_t> sources(const Problem& problem, const Device& device,
                                        std::span<const std::string> tactics) const = 0;
  /// The one of that name where it still takes the problem, else the best guess; "" where none does.
  virtual std::string choose(const Problem& problem, const Device& device, const std::string& tactic) const = 0;
  /// How it runs a node whose bodies are these schedules, as steps; "" where it does not.
  virtual std::string choose_blocks(const Problem&, const std::vector<Schedule>&, const Device&) const { return {}; }
  virtual std::vector<Refusal> refusals(const Problem& problem, const Device& device) const = 0;
  /// The form in which the tactic packs the problem's weights; nullopt where it packs none, or that is not known.
  virtual std::optional<WeightCache::Form> form(const Problem&, const std::string& tactic) const {
    return (void)tactic, std::nullopt;
  }
  /// Names of its kernels for an op, best guess first; none where only the reference runs it.
  virtual std::vector<std::string> kernels(const std::string& op) const = 0;

  virtual TimingPolicy timing() const = 0;
  virtual std::unique_ptr<TacticTimer> timer(const Device& device, int threads) const = 0;
  /// `threads` help with packing. `like` is the same graph for other sizes, of which it may take over what does not
  /// depend on them, or null.
  virtual std::shared_ptr<const Compiled> compile(Schedule schedule, ThreadPool& threads,
                                                  const Compiled* like = nullptr) const = 0;

  /// What this machine has of it, as JSON (an object's members) and as text; asking does not fail.
  virtual std::string device_query(nlohmann::ordered_json& facts) const = 0;
  /// Measures what the device does at most, in some 50 ms; nullopt where that is not known.
  virtual std::optional<Limits> limits(const Device&, int threads) const { return (void)threads, std::nullopt; }
  /// nullptr where nothing can be sampled.
  virtual std::unique_ptr<Meter> meter(const Device& device) const;
  /// Throw Error(unsupported) where kernels are not compiled on this machine.
  virtual KernelCount export_kernels(const std::string& path) const;
  virtual KernelCount import_kernels(const std::string& path) const;
  /// Lets a plugin's op run here where it can; the host runs each. The op lives as long as the process.
  virtual void add_custom_op(const tenon_custom_op&) const {}
};

/// Throws Error(usage) for a name that no backend has.
const Backend& backend(const std::string& name);
inline const Backend& backend(const Device& device) { return backend(device.backend); }
/// Whose kernels take everything and work in the host's memory.
inline const Backend& host() { return backend(std::string("cpu")); }
/// In the order of their priorities, the highest first.
std::vector<const Backend*> backends();

struct BackendRegistrar {
  explicit BackendRegistrar(const Backend& backend, int priority);
};

}  // namespace tenon::backends
