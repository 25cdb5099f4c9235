#pragma once
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/team.h"
#include "plan/plan.h"
#include "runtime/device_program.h"
#include "runtime/dynamic.h"

namespace tenon::runtime {

/// Sees what a step has written before any other step runs, and may change it. Every worker calls `after` once for each
/// step, between two barriers.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void after(ir::NodeId node, const Worker& worker) = 0;
};

/// Copies an output to the memory of the target, which it then is. Throws Error(usage) where sizes differ.
void fill(Tensor& output, const Tensor& target);

/// A plan bound to concrete sizes: steps with resolved addresses in one arena. Run by one thread at a time.
class Program {
 public:
  /// `plan` and `team` must outlive the program.
  /// On a GPU it takes `arena` where that is large enough.
  Program(const plan::Plan& plan, const Shapes& shapes, Team& team, std::shared_ptr<Arena> arena = nullptr);
  /// Whether memory could be planned; otherwise run() goes node by node, allocating.
  bool is_static() const { return static_; }
  const ir::Graph& graph() const { return graph_; }
  /// Inputs and outputs in the graph's order, of the bound sizes. Outputs refer to the arena.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// The same; each target that is not empty gets its output, of whose type and sizes it is, dense. On a CPU kernels
  /// write there where the output has storage of its own.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets);
  /// Sizes of an output; nullopt where they depend on data.
  std::optional<Dims> output_sizes(size_t at) const;
  /// The same with a watcher; only where memory is planned.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, Watcher& watcher);
  /// Where values lie, and which nodes run rather than being views; only where memory is planned.
  const plan::Layout& layout() const { return layout_; }
  /// The first element of a value in the arena.
  std::byte* address(ir::ValueId value) const;
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// The node of a step of `profile`; the last one where the step is a pair.
  ir::NodeId node_of(size_t step) const { return device_ ? device_->node_of(step) : steps_[step].nodes.back(); }
  MemoryUse memory() const;
  /// Milliseconds on the GPU of each of `iterations` runs; empty on the CPU.
  std::vector<double> device_times(int iterations);
  /// Memory of an input that a run reads in place.
  Tensor input(size_t at);
  /// What runs on a GPU as a whole; nullptr where there is none, or a part on the CPU behind it.
  DeviceProgram* device() const { return dynamic_ ? nullptr : device_.get(); }
  /// Of what runs on a GPU; nullptr on the CPU.
  std::shared_ptr<Arena> arena() const { return device_ ? device_->arena() : nullptr; }
  /// Sizes it is bound to, by input, in order.
  bool matches(std::span<const Tensor> inputs) const;

 private:
  struct BoundStep {
    std::unique_ptr<backends::Step> step;
    std::vector<std::byte*> inputs, outputs;
    std::vector<ir::NodeId> nodes;  // one, or the two of a pair
    std::string kernel;
  };
  struct InputSlot {
    size_t step, operand;
    int64_t bytes;  // offset of the view
  };
  /// Where steps read or write the storage of one graph output.
  struct OutputSlot {
    size_t step, operand;
    bool is_input;
    int64_t bytes;  // offset of the view
  };
  struct OutputStorage {
    std::byte* memory = nullptr;  // that the steps use; null: the arena's
    std::vector<OutputSlot> slots;
  };
  void bind(const plan::Plan& plan);
  /// Outputs that fill a storage of theirs alone, by that storage.
  std::map<int, size_t> outputs_alone() const;
  /// Lets the steps use the targets' memory, or the arena again.
  void aim_at(std::span<const Tensor> targets);
  /// The inputs, and behind them what the first part makes of them on a GPU.
  std::vector<Tensor> with_head(std::span<const Tensor> inputs);
  void point_at(std::span<const Tensor> inputs);
  void collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  static void work(void* self, int id);
  /// Lets the team work; throws what a step threw.
  void run_team();
  void fail(std::exception_ptr fault);

  Team& team_;
  ir::Graph graph_;
  std::map<size_t, Tensor> own_inputs_;      // on the CPU, once asked for
  plan::Parts parts_;                        // on a GPU, where sizes depend on data
  std::unique_ptr<DynamicProgram> dynamic_;  // of what memory could not be planned for
  std::unique_ptr<DeviceProgram> device_;    // where the plan is for a GPU: what stands before that
  plan::Layout layout_;
  bool static_ = false;
  std::vector<BoundStep> steps_;
  std::vector<std::vector<InputSlot>> slots_;        // per graph input
  std::map<size_t, OutputStorage> output_storages_;  // by graph output
  std::shared_ptr<std::byte> arena_;
  std::byte* workspace_ = nullptr;
  size_t workspace_bytes_ = 0, packed_bytes_ = 0;
  std::vector<double>* times_ = nullptr;  // per step, while profiling
  Watcher* watcher_ = nullptr;            // of the present run
  std::atomic<bool> failed_{false};
  std::exception_ptr fault_;  // of the first step that failed
};

}  // namespace tenon::runtime
