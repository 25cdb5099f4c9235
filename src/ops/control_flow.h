// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/memory.h"
#include "ir/graph.h"

/// What nodes do with their bodies, in one form for all that run them.
namespace tenon::ops {

/// What an op does with its bodies. Others that have bodies run them on reference kernels.
enum class Flow : uint8_t {
  none,
  branch,  // runs one of two
  loop,    // runs one again and again
};
/// Beside TENON_OP in the op's file.
struct FlowRegistrar {
  FlowRegistrar(const char* op, Flow flow);
};
Flow flow_of(const ir::OpId& op);

/// Attributes of the bodies of a node that branches, the one for true first, or loops; empty for other nodes.
std::vector<std::string> bodies_of(const ir::Node& node);

/// A node that runs its body again and again. Its inputs are, and those of the body in the same places: the number of
/// rounds and a condition where it counts (either may be absent; inside, the round and the condition), carried values,
/// scanned tensors (inside, a slice), captures. Its outputs are the carried values and the scans; before these the body
/// gives whether there is another round, where the node counts.
struct LoopForm {
  struct Axis {
    int64_t axis = 0;  // below 0: from behind
    bool reversed = false;
  };
  bool counts = false;
  size_t carried = 0, scanned = 0, captures = 0, scans = 0;
  std::vector<Axis> scanned_axes, scan_axes;

  size_t first_carried() const { return counts ? 2 : 0; }
  size_t first_scanned() const { return first_carried() + carried; }
  size_t first_capture() const { return first_scanned() + scanned; }
  /// Of the body's outputs.
  size_t first_result() const { return counts ? 1 : 0; }
  size_t first_scan() const { return first_result() + carried; }
};
/// nullopt for a node that is no loop, or whose numbers contradict each other.
std::optional<LoopForm> loop_form(const ir::Node& node);

/// The node's bodies with the types that they have there, by attribute: inputs that are known are constants. Bodies
/// that are never entered are left out.
std::map<std::string, ir::Graph> infer_bodies(ir::Graph& graph, ir::NodeId node);
/// While one lives, inference of its thread leaves bodies there as it has inferred them, by what their nodes hold; of
/// one that it enters more than once the last.
class BodyCollector {
 public:
  explicit BodyCollector(std::map<const ir::Graph*, ir::Graph>& bodies) : outer_(std::exchange(current_, &bodies)) {}
  ~BodyCollector() { current_ = outer_; }
  BodyCollector(const BodyCollector&) = delete;
  static void note(const ir::Graph& body, ir::Graph inferred) {
    if (current_) current_->insert_or_assign(&body, std::move(inferred));
  }

 private:
  static inline thread_local std::map<const ir::Graph*, ir::Graph>* current_ = nullptr;
  std::map<const ir::Graph*, ir::Graph>* outer_;
};

using RunBody = std::function<std::vector<Tensor>(const ir::Graph&, std::vector<Tensor>)>;
/// Runs a node by its reference kernel, and its bodies by `run`, into tensors of the caller: one whose type and sizes
/// fit is filled, another is replaced.
void evaluate(const ir::Node& node, std::span<const Tensor> inputs, std::span<Tensor> outputs, const RunBody& run);

/// Whether the body of a loop that counts goes on whenever it was entered by a condition that holds.
bool always_goes_on(const ir::Graph& body);

/// Counts the rounds of a loop, and of the loops inside it, against Limits::loop_rounds.
class Rounds {
 public:
  Rounds() {
    if (depth_++ == 0) left_ = limits_in_force().loop_rounds;
  }
  ~Rounds() { --depth_; }
  Rounds(const Rounds&) = delete;
  /// Throws Error(resource) when there have been too many.
  void next(const ir::Node& node) {
    if (left_-- <= 0) refuse(node);
  }
  /// Throws what next() throws.
  [[noreturn]] static void refuse(const ir::Node& node) {
    throw Error(Code::resource, "a loop runs longer than it may",
                {.where = "node " + node.label() + " (" + node.op + ")",
                 .why = "it has run " + counted(limits_in_force().loop_rounds, "iteration") +
                        ", including those of inner loops",
                 .hint = "raise the limit with --max-rounds where this is meant"});
  }

 private:
  static inline thread_local int depth_ = 0;
  static inline thread_local int64_t left_ = 0;
};

}  // namespace tenon::ops
