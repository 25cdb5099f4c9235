// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/cuda/runtime/body.h"
#include "backends/cuda/runtime/conditional_node.h"
#include "backends/cuda/runtime/control_params.h"
#include "base/memory.h"
#include "ops/control_flow.h"

/// Nodes whose conditions kernels read: the host has no part in them.
namespace tenon::cuda {
namespace {

const Grid one_thread{1, 1, 1, 1, 0};

Function control(Device& device, const char* name) { return device.function(Source{"control.cu", {}, ""}, name); }

class ConditionalBranch : public Step {
 public:
  ConditionalBranch(const Problem& problem, const std::vector<backends::Schedule>& blocks, Device& device,
                    ThreadPool& thread_pool)
      : device_(device), function_(control(device, "choose_branch")) {
    for (const backends::Schedule& block : blocks)
      bodies_.push_back(std::make_unique<Body>(block, device, thread_pool));
    for (const Operand& output : problem.outputs) wanted_.push_back(static_cast<bool>(output));
  }

  size_t workspace_bytes() const override { return std::max(bodies_[0]->bytes(), bodies_[1]->bytes()); }

  void enqueue(const Launch& launch) const override {
    const std::array<uint64_t, 2> conditions{make_condition(launch.stream), make_condition(launch.stream)};
    cuda::launch(device_, function_, one_thread, launch,
                 BranchParams{launch.inputs[0], conditions[0], conditions[1]});
    for (size_t at = 0; at < bodies_.size(); ++at)
      add_conditional_node(launch.stream, conditions[at], Repeat::once, [&](Stream stream) {
        Launch inside = launch;
        inside.stream = stream;
        enqueue(*bodies_[at], inside);
      });
  }

 private:
  void enqueue(const Body& body, const Launch& launch) const {
    Body::Places places{launch.workspace, {}, {}};
    for (size_t at = 0; at < body.schedule().graph.inputs.size(); ++at) places.inputs.push_back(launch.inputs[at + 1]);
    for (size_t at = 0; at < wanted_.size(); ++at)
      if (wanted_[at] && body.can_aim(at)) body.aim(places, at, launch.outputs[at]);
    body.enqueue(places, launch);
    for (size_t at = 0; at < wanted_.size(); ++at)
      if (wanted_[at]) copy(launch.outputs[at], body.source(at, places), body.bytes_of(at), launch.stream);
  }

  Device& device_;
  Function function_;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::vector<char> wanted_;  // outputs of the node
};

/// A loop of carried values alone, which lie in one place from round to round.
class ConditionalLoop : public Step {
 public:
  ConditionalLoop(const Problem& problem, const backends::Schedule& block, Device& device, ThreadPool& thread_pool)
      : form_(*ops::loop_form(*problem.node)),
        device_(device),
        function_(control(device, "next_round")),
        body_(block, device, thread_pool),
        wide_(problem.inputs[0] && problem.inputs[0].dtype == DType::i64) {
    end_ = inside_at + sizeof(bool);
    for (size_t at = 0; at < form_.carried; ++at) {
      wanted_.push_back(static_cast<bool>(problem.outputs[at]));
      places_.push_back(take(bytes(at)));
    }
    body_at_ = take(0);
  }

  size_t workspace_bytes() const override { return body_at_ + body_.bytes(); }

  void enqueue(const Launch& launch) const override {
    const uint64_t condition = make_condition(launch.stream);
    const bool outermost = launch.rounds == 0;
    const Address count = outermost ? launch.workspace + count_at : launch.rounds;
    LoopParams params{launch.inputs[0], launch.inputs[1],       launch.workspace, count,
                      launch.workspace + inside_at, launch.alarm, condition,
                      limits_in_force().loop_rounds, launch.breadcrumb.step, wide_, 1, outermost};
    for (size_t at = 0; at < form_.carried; ++at)
      copy(state(launch, at), launch.inputs[form_.first_carried() + at], bytes(at), launch.stream);
    cuda::launch(device_, function_, one_thread, launch, params);
    add_conditional_node(launch.stream, condition, Repeat::while_set, [&](Stream stream) {
      Launch inside = launch;
      inside.stream = stream, inside.rounds = count;
      const Address goes_on = enqueue_round(inside);
      params.condition = goes_on, params.first = 0;
      cuda::launch(device_, function_, one_thread, inside, params);
    });
    for (size_t at = 0; at < form_.carried; ++at)
      if (wanted_[at]) copy(launch.outputs[at], state(launch, at), bytes(at), launch.stream);
  }

 private:
  static constexpr size_t count_at = sizeof(int64_t), inside_at = 2 * sizeof(int64_t);  // behind the round

  size_t bytes(size_t carried) const { return body_.bytes_of(form_.first_result() + carried); }
  Address state(const Launch& launch, size_t carried) const { return launch.workspace + places_[carried]; }
  size_t take(size_t bytes) {
    const size_t begin = (end_ + boundary - 1) / boundary * boundary;
    end_ = begin + bytes;
    return begin;
  }

  /// Returns where the body says whether there is another round.
  Address enqueue_round(const Launch& launch) const {
    Body::Places places{launch.workspace + body_at_, {}, {}};
    places.inputs.assign(launch.inputs, launch.inputs + body_.schedule().graph.inputs.size());
    places.inputs[0] = launch.workspace, places.inputs[1] = launch.workspace + inside_at;
    for (size_t at = 0; at < form_.carried; ++at) places.inputs[form_.first_carried() + at] = state(launch, at);
    body_.enqueue(places, launch);
    for (size_t at = 0; at < form_.carried; ++at)
      copy(state(launch, at), body_.source(form_.first_result() + at, places), bytes(at), launch.stream);
    return body_.source(0, places);
  }

  const ops::LoopForm form_;
  Device& device_;
  Function function_;
  Body body_;
  bool wide_;
  std::vector<char> wanted_;  // outputs of the node
  std::vector<size_t> places_;
  size_t end_ = 0, body_at_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_conditional(const Problem& problem, const std::vector<backends::Schedule>& blocks,
                                       Device& device, ThreadPool& thread_pool) {
  if (ops::flow_of(problem.node->op) == ops::Flow::branch)
    return std::make_unique<ConditionalBranch>(problem, blocks, device, thread_pool);
  return std::make_unique<ConditionalLoop>(problem, blocks[0], device, thread_pool);
}

}  // namespace tenon::cuda
