#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cuda/kernel.h"
#include "backends/cuda/timing.h"
#include "base/team.h"
#include "plan/plan.h"
#include "runtime/lanes.h"

namespace tenon::runtime {

/// Where intermediate values lie, of one program or of several that run in turn.
struct Arena {
  int device;
  cuda::Buffer memory;
  std::mutex running;  // held by the program that runs
};

/// A plan bound to concrete sizes on a GPU: one arena, weights uploaded once, the whole as recorded graphs. A node that
/// no GPU kernel takes runs on the CPU, with copies of its operands before and after.
class DeviceProgram {
 public:
  /// Where branches of the network run: one after the other, beside each other, or as the plan's records say.
  enum class Branches { in_turn, beside, as_recorded };
  /// All but `device` must outlive it; `graph` has concrete sizes.
  /// It takes `arena` where that is on its device and large enough, else one of its own.
  DeviceProgram(const plan::Plan& plan, const ir::Graph& graph, Team& team, Branches branches = Branches::as_recorded,
                std::shared_ptr<Arena> arena = nullptr);
  ~DeviceProgram();
  /// Inputs lie in the memory of the process or on the program's device. Outputs are page-locked memory of the program,
  /// valid until the next run, or the targets, of either place, where these are given and not empty.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets = {});
  /// Page-locked memory of an input: a run given this copies nothing on the host.
  Tensor input(size_t at) const;
  /// Where an input or output of the graph lies on the device.
  cuda::Address input_address(size_t at) const { return inputs_.at(graph_.inputs[at]).address(); }
  cuda::Address output_address(size_t at);
  /// Puts a run on a stream; address 0 stands for the program's own. Throws Error(unsupported) where a node runs on the
  /// CPU.
  void enqueue(std::span<const cuda::Address> inputs, std::span<const cuda::Address> outputs, cuda::Stream stream);
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// The node of a step of `profile`.
  ir::NodeId node_of(size_t step) const { return steps_[step].node; }
  /// Device time of each of `iterations` runs on the operands that are there, in milliseconds, without copies of inputs
  /// and outputs.
  std::vector<double> time(int iterations);
  MemoryUse memory() const;
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  /// The keys of the steps' records, in order; the key of a step on the CPU is empty.
  const std::vector<std::string>& keys() const { return keys_; }
  bool has_host_steps() const { return mirror_.data() != nullptr; }
  /// How many steps may run at once.
  int width() const { return width_; }

  /// Steps [first, last): recorded, or one host step.
  struct Segment {
    size_t first, last;
    cuda::Recording recording;
  };
  /// Steps of one key by another tactic, and the whole recorded with them.
  struct Variant {
    std::vector<std::pair<size_t, std::unique_ptr<cuda::Step>>> steps;
    std::string kernel;
    std::vector<Segment> segments;
  };
  Variant variant(const std::string& key, const std::string& kernel);
  /// The program takes the variant's place, and it the program's.
  void exchange(Variant& variant);

 private:
  struct HostStep;
  struct BoundStep {
    ir::NodeId node;
    std::string kernel;
    std::unique_ptr<cuda::Step> step;  // null for a host step
    std::unique_ptr<HostStep> host;
    std::vector<cuda::Address> inputs, outputs;
  };
  static constexpr int most_lanes = 4;
  void sort_by_depth();
  void bind();
  /// Weights of convolutions in 16 bits, rounded as all kernels shall round them.
  void round_weights(std::span<backends::Problem> problems) const;
  std::vector<Segment> record();
  void enqueue_beside(size_t first, size_t last);
  /// The steps that left the last trails, and those behind them that leave none.
  std::string under_way() const;
  /// What it takes of the device's memory at least, before kernels have packed their weights.
  std::string needs() const;
  /// Does the work; a fault meanwhile is the end of the device.
  template <class Work>
  auto watched(const Work& work) try {
    return work();
  } catch (const cuda::Fault& fault) {
    device_.give_up(fault, under_way());
  }
  /// The choice's step, or the best guess whose workspace keeps to the limit, which then is the choice.
  std::unique_ptr<cuda::Step> fitting_step(const backends::Problem& problem, cuda::Choice& choice);
  void reserve_workspace(size_t bytes);
  cuda::Address constant(ir::ValueId value);
  cuda::Address address(ir::ValueId value) const;
  void enqueue(const BoundStep& step, cuda::Stream stream, size_t lane = 0) const;
  std::unique_ptr<HostStep> host_step(ir::NodeId id) const;
  void run_host(BoundStep& step);
  void run_segments();
  std::vector<double> time_segments(int iterations);
  void upload(std::span<const Tensor> inputs);
  void download(std::span<const Tensor> targets);
  void enqueue_all(std::span<const cuda::Address> inputs, std::span<const cuda::Address> outputs, cuda::Stream stream);
  std::vector<LayerTime> time_layers(std::span<const Tensor> inputs, int iterations);

  const plan::Plan& plan_;
  const ir::Graph& graph_;
  Team& team_;
  cuda::Device& device_;
  plan::Layout layout_;
  cuda::Clock clock_;
  std::shared_ptr<Arena> arena_;
  cuda::Weights weights_;
  std::vector<cuda::Buffer> workspaces_;  // the last is in use; recordings may hold earlier ones
  std::map<ir::ValueId, cuda::Buffer> inputs_, constants_;
  std::map<ir::ValueId, cuda::PinnedBuffer> staging_;  // of graph inputs and outputs
  cuda::PinnedBuffer mirror_;                          // of the arena, where there are host steps
  cuda::PinnedBuffer trails_;                          // by lane: one more than the step that began last
  std::vector<BoundStep> steps_;
  std::vector<Segment> segments_;
  std::vector<ir::NodeId> order_;                       // of the nodes that run
  std::vector<std::string> keys_;                       // of their problems
  std::vector<std::unique_ptr<cuda::Clock>> branches_;  // streams of lanes beside the first
  std::map<size_t, cuda::Mark> marks_;                  // while it is recorded: steps that others wait for
  bool beside_ = false;
  int width_ = 1;
};

}  // namespace tenon::runtime
