// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cuda/runtime/host_hop.h"
#include "backends/cuda/runtime/kernel.h"
#include "backends/cuda/runtime/streams.h"
#include "backends/cuda/runtime/timing.h"
#include "backends/executable.h"
#include "base/thread_pool.h"

namespace tenon::cuda {

/// Weights of convolutions in 16 bits become rounded as all kernels shall round them.
void round_weights(std::span<Problem> problems, ThreadPool& thread_pool);

struct DeviceArena : backends::Arena {
  DeviceArena(int index, size_t bytes) : device(index), memory(bytes, "the arena") {}
  int device;
  Buffer memory;
  std::mutex running;  // held by the executable that runs
};

/// The kernels of a schedule on a GPU, with their weights uploaded once. A node that no GPU kernel takes has none.
class DeviceCompiled : public backends::Compiled {
 public:
  DeviceCompiled(backends::Schedule schedule, ThreadPool& thread_pool);
  std::unique_ptr<backends::Executable> executable(ThreadPool& threads,
                                                   std::shared_ptr<backends::Arena> arena) const override;
  /// nullptr for a step on the host.
  const Step* step(size_t at) const { return steps_[at].get(); }
  const std::string& kernel(size_t at) const { return kernels_[at]; }
  std::shared_ptr<const backends::Step> host_step(size_t at) const;
  /// Bodies of a step that the host replays; empty for others.
  const std::vector<std::unique_ptr<Body>>& bodies(size_t at) const { return bodies_[at]; }
  /// The step by another tactic, in memory of its own.
  std::unique_ptr<Step> step_by(size_t at, const std::string& tactic, ThreadPool& thread_pool) const;
  /// The elements of a constant on the device.
  Address constant(ir::ValueId value) const;
  Device& device() const { return device_; }
  size_t weights_bytes() const { return weights_.bytes(); }
  /// Does the work; where memory does not suffice, the Error says what the engine takes.
  void explain_memory(const std::function<void()>& work) const;

 private:
  /// The choice's step, or the best guess whose workspace keeps to the limit, which then is the choice.
  std::unique_ptr<Step> fitting_step(const Problem& problem, Choice& choice);
  /// What it takes of the device's memory at least, before kernels have packed their weights.
  std::string needs() const;
  void make_steps(ThreadPool& thread_pool);

  Device& device_;
  Weights weights_;  // before what has slices of it
  mutable std::mutex mutex_;
  mutable std::map<ir::ValueId, Buffer> constants_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::vector<std::unique_ptr<Body>>> bodies_;
  std::vector<std::string> kernels_;
  std::map<size_t, std::shared_ptr<const backends::Step>> host_steps_;
};

/// A schedule in one arena, the whole as recorded graphs. A node that no GPU kernel takes runs on the CPU, with copies
/// of its operands before and after.
class DeviceExecutable : public backends::StreamExecutable {
 public:
  DeviceExecutable(std::shared_ptr<const DeviceCompiled> compiled, ThreadPool& thread_pool,
                   std::shared_ptr<backends::Arena> arena);
  ~DeviceExecutable() override;
  const backends::Schedule& schedule() const override { return compiled_->schedule(); }
  using Executable::run;
  /// Outputs without targets are page-locked memory.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) override;
  /// Page-locked memory: a run given this copies nothing on the host.
  Tensor input(size_t at) override;
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations) override;
  MemoryUse memory() const override;
  std::shared_ptr<backends::Arena> arena() const override { return arena_; }

  uint64_t input_address(size_t at) const override { return inputs_.at(graph().inputs[at]).address(); }
  uint64_t output_address(size_t at) override;
  void enqueue(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream) override;
  std::vector<double> time(int iterations) override;
  bool has_host_steps() const override { return mirror_.data() != nullptr || hops_; }
  int width() const override { return width_; }
  std::unique_ptr<Variant> variant(const std::string& key, const std::string& tactic) override;
  void exchange(Variant& variant) override;

 private:
  struct HostStep;
  struct DeviceVariant;
  /// Steps [first, last): recorded, or one that the host has a part in.
  struct Segment {
    size_t first, last;
    Recording recording;
  };
  struct BoundStep {
    ir::NodeId node;
    std::string kernel;
    const Step* step;           // null where the host has a part in it
    std::unique_ptr<Step> own;  // where it is not the compiled one
    std::unique_ptr<HostStep> host;
    std::unique_ptr<HostHop> hop;
    std::vector<Address> inputs, outputs;
  };
  /// Memory of the caller that runs read and write in place.
  struct Aim {
    std::vector<Address> given;            // inputs and outputs; 0: none
    std::vector<Address> inputs, outputs;  // of them what is used in place; 0: the executable's own
    bool again = false;                    // they came more than once
    Recording recording;                   // on them; empty where nothing can be used in place
  };
  class Aiming;
  static constexpr int most_streams = 4;
  static constexpr size_t most_aims = 16;
  void reserve_operands();
  void bind();
  void add_operands(BoundStep& step);
  std::vector<Segment> record();
  void enqueue_concurrently(size_t first, size_t last);
  void enqueue_in_order(size_t first, size_t last);
  /// Whether copies are all that a step of the GPU does, where its operands are now; appends them.
  static bool copies_of(const BoundStep& step, std::vector<CopyPart>& parts);
  /// How many steps from the first on, whose footprints are given, may be one launch, and their copies.
  size_t copies_at(size_t first, std::span<const std::vector<Footprint>> touched, std::vector<CopyPart>& parts) const;
  void enqueue_copies(size_t first, const std::vector<CopyPart>& parts, Stream stream) const;
  std::vector<std::vector<Footprint>> footprints(size_t first, size_t last) const;
  /// The steps that left the last breadcrumbs, and those behind them that leave none.
  std::string under_way() const;
  /// Does the work; a fault meanwhile is the end of the device.
  template <class Work>
  auto watched(const Work& work) try {
    return work();
  } catch (const Fault& fault) {
    device_.give_up(fault, under_way());
  }
  void reserve_workspace(size_t bytes);
  size_t bytes_of(ir::ValueId value) const;
  Address address_of(ir::ValueId value) const;
  /// Whether the run reads the input, or writes the output, where the caller has it.
  bool is_aimed_input(size_t at) const { return aim_ && aim_->inputs[at] != 0; }
  bool is_aimed_output(size_t at) const;
  /// The aim at what is given, from the second time on that it comes; nullptr where it is copied.
  const Aim* aim_at(std::span<const Address> given);
  /// Keeps of the aim what can be used in place: all of it, or nothing.
  void choose_places(Aim& aim);
  void record(Aim& aim);
  /// To where the aim has them.
  void move_operands();
  /// Without operands and workspace.
  Launch launch_of(size_t step, Stream stream, size_t stream_at = 0) const;
  void enqueue(const BoundStep& step, Stream stream, size_t stream_at = 0) const;
  /// Throws Error(resource) where a loop of the last run had to stop.
  void heed_alarm();
  std::unique_ptr<HostStep> bind_host_step(size_t at) const;
  void run_host(BoundStep& step);
  void run_by_host(BoundStep& step) {
    if (step.hop) step.hop->run(clock_.stream());
    else run_host(step);
  }
  void add_hop(size_t at);
  void run_segments();
  std::vector<double> time_segments(int iterations);
  void upload(std::span<const Tensor> inputs);
  void download(std::span<const Tensor> targets);
  void enqueue_all(std::span<const Address> inputs, std::span<const Address> outputs, Stream stream);
  std::vector<LayerTime> time_layers(std::span<const Tensor> inputs, int iterations);
  const ir::Graph& graph() const { return schedule().graph; }
  const backends::Layout& layout() const { return schedule().layout; }

  std::shared_ptr<const DeviceCompiled> compiled_;
  ThreadPool& thread_pool_;
  Device& device_;
  Clock clock_;
  std::shared_ptr<DeviceArena> arena_;
  std::vector<Buffer> workspaces_;  // the last is in use; recordings may hold earlier ones
  std::map<ir::ValueId, Buffer> inputs_;
  std::map<ir::ValueId, PinnedBuffer> staging_;  // of graph inputs and outputs
  PinnedBuffer mirror_;                          // of the arena, where there are host steps
  PinnedBuffer breadcrumbs_;                          // by stream_at: one more than the step that began last; alarm
  std::vector<BoundStep> steps_;
  Function copies_{};  // where several steps may be one launch of it
  std::vector<Segment> segments_;
  std::map<int, size_t> aimable_;  // storages, with their outputs
  std::list<Aim> aims_;            // the latest first
  std::vector<Address> given_;     // to this run
  const Aim* aim_ = nullptr;       // of the run, or of what is recorded
  std::vector<std::unique_ptr<Clock>> branches_;  // streams of streams beside the first
  std::map<size_t, Mark> marks_;                  // while it is recorded: steps that others wait for
  int width_ = 1;
  bool hops_ = false;
};

}  // namespace tenon::cuda
