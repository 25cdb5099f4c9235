// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/timer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>

#include "backends/kernel.h"

namespace tenon::cpu {
namespace {

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

/// Both nodes of a pair one after the other, each by its own kernel: what the pair's kernel has to beat.
class UnfusedPair : public backends::Step {
 public:
  UnfusedPair(const backends::Pair& pair, const std::string& first, const std::string& second)
      : firsts_(pair.first.inputs.size()),
        seconds_(pair.second.inputs.size()),
        first_(backends::kernel_for(pair.first, first).make(pair.first)),
        second_(backends::kernel_for(pair.second, second).make(pair.second)),
        between_(buffer(backends::extent(pair.first.outputs[0]))) {}
  size_t workspace_bytes() const override { return std::max(first_->workspace_bytes(), second_->workspace_bytes()); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
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

class HostTimer : public backends::TacticTimer {
 public:
  explicit HostTimer(int threads) : thread_pool_(threads) {}
  void prepare(std::span<const Problem* const>) override {}

  std::vector<size_t> begin(const Problem& problem, std::span<const std::string> tactics) override {
    steps_.clear();
    for (const std::string& tactic : tactics) steps_.push_back(backends::kernel_for(problem, tactic).make(problem));
    return start(problem);
  }

  std::vector<size_t> begin(const backends::ScheduledStep& unfused, const std::string& first,
                            const std::string& second) override {
    const backends::Pair pair{unfused.problems[0], unfused.problems[1]};
    steps_.clear();
    steps_.push_back(std::make_unique<UnfusedPair>(pair, first, second));
    steps_.push_back(backends::pair_kernel(pair)->make(pair));
    return start(backends::operands_of(pair));
  }

  double run(size_t tactic) override {
    Run run{steps_[tactic].get(), inputs_.data(), outputs_.data(), &thread_pool_, workspace_};
    const auto begin = Clock::now();
    thread_pool_.run(work, &run);
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

 private:
  struct Run {
    backends::Step* step;
    std::byte* const* inputs;
    std::byte* const* outputs;
    ThreadPool* thread_pool;
    std::byte* workspace;
  };

  static void work(void* context, int id) {
    const auto& run = *static_cast<Run*>(context);
    const Worker worker = run.thread_pool->worker(id, run.workspace);
    run.step->run(run.inputs, run.outputs, worker);
    worker.sync();
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
  std::vector<std::unique_ptr<backends::Step>> steps_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<std::byte*> inputs_, outputs_;
  std::byte* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<backends::TacticTimer> make_timer(int threads) { return std::make_unique<HostTimer>(threads); }

}  // namespace tenon::cpu
