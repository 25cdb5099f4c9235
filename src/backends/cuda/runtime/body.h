// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/kernel.h"
#include "backends/schedule.h"
#include "base/thread_pool.h"

/// Bodies of nodes that branch or loop, on a GPU.
namespace tenon::cuda {

/// How such nodes run. Where nothing but their sizes decides how often a body runs, its rounds are recorded one behind
/// the other. Else the body lies in a conditional node of the recording; where the driver has none, the host reads the
/// condition, and replays what was recorded of the body.
inline constexpr const char* unrolled = "unrolled";
inline constexpr const char* conditional = "conditional";
inline constexpr const char* host_hop = "host hop";
/// One of these; "" where the device does not run the bodies.
std::string choose_blocks(const Problem& problem, const std::vector<backends::Schedule>& blocks);
/// How often the body of an unrolled loop runs.
int64_t rounds_of(const Problem& problem);

/// A body's kernels with their weights uploaded. The schedule must outlive it.
class Body {
 public:
  Body(const backends::Schedule& schedule, Device& device, ThreadPool& thread_pool);
  const backends::Schedule& schedule() const { return schedule_; }
  /// Where its values lie while it runs.
  struct Places {
    Address memory = 0;            // of bytes()
    std::vector<Address> inputs;   // of the body's inputs
    std::map<int, Address> aimed;  // storages that lie elsewhere than in its arena
  };
  /// Of the arena and behind it the workspace.
  size_t bytes() const { return workspace_at_ + workspace_bytes_; }
  /// Whether an output fills a storage which no other value that is an output lies in.
  bool can_aim(size_t output) const;
  void aim(Places& places, size_t output, Address at) const { places.aimed[storage_of(output)] = at; }
  Address source(size_t output, const Places& places) const { return address(graph().outputs[output], places); }
  /// The body's input that an output is; -1 where it is none.
  int input_of(size_t output) const;
  bool is_constant(size_t output) const { return graph().value(graph().outputs[output]).is_constant(); }
  size_t bytes_of(size_t output) const;
  /// Puts all steps on the stream; of the launch, operands and workspace are not read.
  void enqueue(const Places& places, const Launch& launch) const;

 private:
  const ir::Graph& graph() const { return schedule_.graph; }
  int storage_of(size_t output) const { return schedule_.layout.places[graph().outputs[output]].storage; }
  Address address(ir::ValueId value, const Places& places) const;

  const backends::Schedule& schedule_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::map<ir::ValueId, Buffer> constants_;  // that steps read, or that are outputs
  std::map<int, size_t> storages_;           // that can be aimed
  size_t workspace_at_ = 0, workspace_bytes_ = 0;
};

/// The step of a node with bodies, unless it is a host hop.
std::unique_ptr<Step> make_with_blocks(const backends::ScheduledStep& step, Device& device, ThreadPool& thread_pool);
std::unique_ptr<Step> make_unrolled(const Problem& problem, const backends::Schedule& body, Device& device,
                                    ThreadPool& thread_pool);
std::unique_ptr<Step> make_conditional(const Problem& problem, const std::vector<backends::Schedule>& blocks,
                                       Device& device, ThreadPool& thread_pool);

inline constexpr size_t boundary = 256;      // of regions of memory, as allocations of the device have it
inline constexpr Address vector_bytes = 16;  // what kernels may read at once

/// Storages that one output fills, and no other value that is an output lies in, with the output: they may lie
/// elsewhere than in the arena.
std::map<int, size_t> storages_of_one_output(const backends::Schedule& schedule);

/// Copies bytes on the device; nothing where there are none, or they lie there.
void copy(Address to, Address from, size_t bytes, Stream stream);

}  // namespace tenon::cuda
