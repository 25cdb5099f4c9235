// SPDX-License-Identifier: Apache-2.0
#include "runtime/rest_program.h"

#include <tenon/error.h>

#include <algorithm>
#include <utility>

#include "backends/host_arena.h"
#include "runtime/program.h"

namespace tenon::runtime {
namespace {

constexpr size_t kept_sizes = 8;  // of a part, which it remembers

/// Kernels take no tensors without elements.
bool is_filled(const Tensor& tensor) { return tensor && size_of(tensor.dtype()) > 0 && tensor.elements() > 0; }

}  // namespace

struct RestProgram::Part {
  Part(const plan::RestPart& part, const plan::Plan& plan, ThreadPool& thread_pool,
       std::shared_ptr<backends::WeightCache> weights)
      : of(part), nodes(part.graph, plan, thread_pool, std::move(weights)) {}

  const plan::RestPart& of;
  DynamicProgram nodes;
  std::vector<std::unique_ptr<Program>> programs;                                          // what ran last is in front
  const std::shared_ptr<backends::Arena> arena = std::make_shared<backends::HostArena>();  // of all
  std::vector<size_t> last_uses;  // slots that no part behind it takes
};

RestProgram::RestProgram(std::shared_ptr<const plan::Rest> rest, const plan::Plan& plan, ThreadPool& thread_pool,
                         std::shared_ptr<backends::WeightCache> weights)
    : rest_(std::move(rest)), thread_pool_(thread_pool) {
  for (const plan::RestPart& part : rest_->parts)
    parts_.push_back(std::make_unique<Part>(part, plan, thread_pool, weights));
  std::vector<char> seen(rest_->slots, 0);
  for (const size_t slot : rest_->outputs) seen[slot] = 1;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    for (const size_t slot : (*part)->of.takes)
      if (!std::exchange(seen[slot], 1)) (*part)->last_uses.push_back(slot);
}
RestProgram::~RestProgram() = default;

Program* RestProgram::bound(Part& part) {
  if (!part.of.planned || !std::all_of(operands_.begin(), operands_.end(), is_filled)) return nullptr;
  auto& programs = part.programs;
  const auto known = std::find_if(programs.begin(), programs.end(),
                                  [&](const std::unique_ptr<Program>& program) { return program->matches(operands_); });
  if (known != programs.end()) {
    std::rotate(programs.begin(), known, known + 1);
    return programs.front().get();
  }
  const ir::Graph& graph = part.of.planned->plan.graph;
  Shapes shapes;
  for (size_t at = 0; at < operands_.size(); ++at)
    shapes[graph.value(graph.inputs[at]).name] = {operands_[at].dims().begin(), operands_[at].dims().end()};
  try {
    auto program =
        std::make_unique<Program>(part.of.planned->plan, shapes, thread_pool_, &part.of.planned->shared, part.arena);
    if (!program->is_static()) return nullptr;
    programs.insert(programs.begin(), std::move(program));
  } catch (const Error&) {
    return nullptr;  // of its node, where it runs
  }
  if (programs.size() > kept_sizes) programs.pop_back();
  return programs.front().get();
}

void RestProgram::begin(std::span<const Tensor> inputs) {
  values_.assign(rest_->slots, Tensor());
  for (size_t at = 0; at < inputs.size(); ++at) values_[rest_->inputs[at]] = inputs[at];
}

void RestProgram::run(Part& part) {
  operands_.clear();
  for (const size_t slot : part.of.takes) operands_.push_back(values_[slot]);
  if (Program* const program = bound(part)) {
    outputs_.assign(part.of.gives.size(), Tensor());
    program->run(operands_, outputs_);
  } else {
    outputs_ = part.nodes.run(operands_);
  }
  for (size_t at = 0; at < outputs_.size(); ++at) values_[part.of.gives[at]] = std::move(outputs_[at]);
  for (const size_t slot : part.last_uses) values_[slot] = Tensor();
  operands_.clear();
}

std::vector<Tensor> RestProgram::results() const {
  std::vector<Tensor> results;
  for (const size_t slot : rest_->outputs) results.push_back(values_[slot]);
  return results;
}

std::vector<Tensor> RestProgram::run(std::span<const Tensor> inputs) {
  begin(inputs);
  for (const auto& part : parts_) run(*part);
  std::vector<Tensor> given = results();
  values_.clear();
  return given;
}

std::vector<LayerTime> RestProgram::profile(std::span<const Tensor> inputs, int iterations) {
  std::vector<LayerTime> all;
  begin(inputs);
  for (const auto& part : parts_) {
    operands_.clear();
    for (const size_t slot : part->of.takes) operands_.push_back(values_[slot]);
    Program* const program = bound(*part);
    const std::vector<LayerTime> layers =
        program ? program->profile(operands_, iterations) : part->nodes.profile(operands_, iterations);
    all.insert(all.end(), layers.begin(), layers.end());
    run(*part);
  }
  values_.clear();
  return all;
}

}  // namespace tenon::runtime
