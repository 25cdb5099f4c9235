// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/timer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>

#include "backends/kernel.h"
#include "base/faults.h"
#include "base/noise.h"

namespace tenon::cpu {
namespace {

using backends::Member;
using backends::Operand;
using backends::Problem;
using Clock = std::chrono::steady_clock;

std::shared_ptr<std::byte> buffer(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes + 64, std::align_val_t(4096)));
  // Small finite values of any type: neither denormals nor NaN.
  for (size_t at = 0; at + 4 <= bytes; at += 4)
    *reinterpret_cast<uint32_t*>(memory + at) = 0x3d800000u + static_cast<uint32_t>(at * 2654435761u % 0x400000u);
  return {memory, [](std::byte* p) { ::operator delete(p, std::align_val_t(4096)); }};
}

/// The members of a group one after the other, each by its own kernel: what kernels of the whole have to beat.
class UnfusedStep : public backends::Step {
 public:
  UnfusedStep(const Problem& whole, const std::vector<Member>& members) {
    std::map<ir::ValueId, size_t> slots;  // of the members' values
    const std::vector<ir::ValueId>&inputs = whole.node->members->inputs, &outputs = whole.node->members->outputs;
    const auto bind = [&](const std::vector<ir::ValueId>& values, const std::vector<Operand>& operands, auto& places) {
      size_t next = 0;
      for (size_t at = 0; at < operands.size(); ++at)
        if (operands[at]) places.push_back({at, slots.emplace(values[next++], slots.size()).first->second});
    };
    bind(inputs, whole.inputs, inputs_), bind(outputs, whole.outputs, outputs_);
    const auto slot_of = [&](ir::ValueId value, const Operand& operand) {
      if (value == ir::no_value) return none;
      const auto [slot, fresh] = slots.emplace(value, slots.size());
      if (fresh) between_.push_back({slot->second, buffer(backends::extent(operand))});
      return slot->second;
    };
    for (const Member& member : members) {
      Bound bound{backends::make_step(member.problem, member.tactic).step, {}, {}};
      for (size_t at = 0; at < member.inputs.size(); ++at)
        bound.inputs.push_back(slot_of(member.inputs[at], member.problem.inputs[at]));
      for (size_t at = 0; at < member.outputs.size(); ++at)
        bound.outputs.push_back(slot_of(member.outputs[at], member.problem.outputs[at]));
      steps_.push_back(std::move(bound));
    }
    for (const Bound& bound : steps_)
      most_operands_ = std::max({most_operands_, bound.inputs.size(), bound.outputs.size()});
    values_ = slots.size();
  }
  size_t workspace_bytes() const override {
    size_t most = 0;
    for (const Bound& bound : steps_) most = std::max(most, bound.step->workspace_bytes());
    return most;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    thread_local std::vector<std::byte*> values, from, to;  // that grow before anything is timed
    values.resize(std::max(values.size(), values_));
    from.resize(std::max(from.size(), most_operands_)), to.resize(std::max(to.size(), most_operands_));
    for (const auto& [at, slot] : inputs_) values[slot] = inputs[at];
    for (const auto& [at, slot] : outputs_) values[slot] = outputs[at];
    for (const auto& [slot, memory] : between_) values[slot] = memory.get();
    const auto gather = [&](const std::vector<size_t>& slots, auto& list) {
      for (size_t at = 0; at < slots.size(); ++at) list[at] = slots[at] == none ? nullptr : values[slots[at]];
    };
    for (size_t at = 0; at < steps_.size(); ++at) {
      if (at > 0) worker.sync();
      gather(steps_[at].inputs, from), gather(steps_[at].outputs, to);
      steps_[at].step->run(from.data(), to.data(), worker);
    }
  }

 private:
  static constexpr size_t none = SIZE_MAX;
  struct Bound {
    std::unique_ptr<backends::Step> step;
    std::vector<size_t> inputs, outputs;  // slots
  };
  std::vector<Bound> steps_;
  size_t values_ = 0, most_operands_ = 0;
  std::vector<std::pair<size_t, size_t>> inputs_, outputs_;  // an operand of the whole, its slot
  std::vector<std::pair<size_t, std::shared_ptr<std::byte>>> between_;
};

class HostTimer : public backends::TacticTimer {
 public:
  explicit HostTimer(int threads) : thread_pool_(threads, Denormals::flushed, Helpers::all), meter_(threads) {}
  void prepare(std::span<const Problem* const>, const backends::Prepared&) override {}

  std::vector<size_t> begin(const Problem& problem, std::span<const std::string> tactics) override {
    steps_.clear();
    for (const std::string& tactic : tactics)
      if (tactic == backends::unfused) steps_.push_back(std::make_unique<UnfusedStep>(problem, members_));
      else steps_.push_back(backends::make_step(problem, tactic).step);
    return start(problem);
  }

  bool times_members() const override { return true; }
  void set_members(std::vector<Member> members) override { members_ = std::move(members); }

  double run(size_t tactic) override {
    Run run{steps_[tactic].get(), inputs_.data(), outputs_.data(), {}};
    thread_pool_.gather();
    meter_.begin();
    const auto begin = Clock::now();
    thread_pool_.run(work, &run, workspace_);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    disturbed_ = meter_.end(seconds);
    run.faults.rethrow();
    return 1e6 * seconds;
  }
  bool disturbed() const override { return disturbed_; }

 private:
  struct Run {
    backends::Step* step;
    std::byte* const* inputs;
    std::byte* const* outputs;
    Faults faults;  // of constants that are no such operands
  };

  static void work(void* context, const Worker& worker) {
    auto& run = *static_cast<Run*>(context);
    try {
      run.step->run(run.inputs, run.outputs, worker);
    } catch (...) {
      run.faults.note();
    }
  }

  std::byte* reserve(size_t bytes) {
    memory_.push_back(buffer(bytes));
    return memory_.back().get();
  }

  std::vector<size_t> start(const Problem& problem) {
    memory_.clear(), inputs_.clear(), outputs_.clear();
    for (const Operand& operand : problem.inputs) {
      if (!operand) inputs_.push_back(nullptr);
      else if (operand.constant) inputs_.push_back(const_cast<std::byte*>(operand.constant.data<std::byte>()));
      else inputs_.push_back(reserve(backends::extent(operand)));
      // What may be indices lies within any axis.
      if (operand && !operand.constant && (operand.dtype == DType::i64 || operand.dtype == DType::i32))
        std::fill_n(inputs_.back(), backends::extent(operand), std::byte{0});
    }
    for (const Operand& operand : problem.outputs) outputs_.push_back(reserve(operand ? backends::extent(operand) : 0));
    size_t workspace = 0;
    for (const auto& step : steps_) workspace = std::max(workspace, step->workspace_bytes());
    workspace_ = reserve(workspace);
    std::vector<size_t> all;
    for (size_t at = 0; at < steps_.size(); ++at) all.push_back(at), run(at);
    return all;
  }

  ThreadPool thread_pool_;
  PreemptionMeter meter_;
  bool disturbed_ = false;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<backends::Step>> steps_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<std::byte*> inputs_, outputs_;
  std::byte* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<backends::TacticTimer> make_timer(int threads) { return std::make_unique<HostTimer>(threads); }

}  // namespace tenon::cpu
