// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/control_flow.h"

#include <algorithm>
#include <chrono>

#include "backends/strided_copy.h"
#include "ops/control_flow.h"

namespace tenon::cpu {
namespace {
constexpr size_t nowhere = SIZE_MAX;
}

Block::Block(const ScheduleKernels& kernels) : bound_(kernels), times_(bound_.steps(), 0) {
  for (const ir::ValueId id : graph().outputs) {
    const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), id);
    input_of_.push_back(input == graph().inputs.end() ? -1 : static_cast<int>(input - graph().inputs.begin()));
  }
}

Worker Block::workers(const Worker& outer) const {
  Worker workers = outer;
  if (bound_.schedule().threads == 1) workers.count = 1;
  return workers;
}

void Block::run(const Worker& outer, Faults& faults) {
  using Clock = std::chrono::steady_clock;
  Worker worker = outer;
  worker.workspace = bound_.workspace();
  for (size_t at = 0; at < bound_.steps(); ++at) {
    const auto begin = timed_ ? Clock::now() : Clock::time_point();
    if (!faults.any()) try {
        bound_.run(at, worker);
      } catch (...) {
        faults.note();
      }
    worker.sync();
    if (timed_ && worker.id == 0) times_[at] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  if (bound_.steps() == 0) worker.sync();
  if (worker.id == 0) ++rounds_;
}

const std::byte* Block::source(size_t output, const std::vector<const std::byte*>& inputs) const {
  const ir::ValueId id = graph().outputs[output];
  if (const Tensor* constant = graph().constant(id)) return constant->data<std::byte>();
  const int input = input_of_[output];
  return input < 0 ? bound_.address(id) : inputs[static_cast<size_t>(input)];
}

void Block::begin_profile() {
  timed_ = true;
  rounds_ = 0;
  std::fill(times_.begin(), times_.end(), 0);
  for (size_t at = 0; at < bound_.steps(); ++at)
    if (const auto* step = dynamic_cast<const ControlStep*>(&bound_.step(at))) step->begin_profile();
}

void Block::add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const {
  for (size_t at = 0; at < bound_.steps(); ++at) {
    const backends::ScheduledStep& scheduled = bound_.schedule().steps[at];
    const ir::Node& node = graph().node(scheduled.node);
    const size_t own = layers.size();
    layers.push_back({node.op + " " + node.label(), node.origins, bound_.tactic(at), times_[at] / iterations, inside,
                      static_cast<double>(rounds_) / iterations});
    if (const auto* step = dynamic_cast<const ControlStep*>(&bound_.step(at)))
      step->add_times(layers, inside + node.label() + "/", iterations);
    for (size_t inner = own + 1; inner < layers.size(); ++inner) layers[own].microseconds -= layers[inner].microseconds;
    layers[own].microseconds = std::max(0.0, layers[own].microseconds);
  }
}

size_t dense_bytes(const backends::Operand& operand) {
  return operand ? static_cast<size_t>(operand.dims.elements()) * size_of(operand.dtype) : 0;
}

DenseCopies::DenseCopies(const backends::Problem& problem, size_t first, size_t last, size_t& end)
    : problem_(problem), places_(problem.inputs.size(), nowhere) {
  for (size_t at = first; at < last; ++at)
    if (const backends::Operand& input = problem.inputs[at]; input && !input.constant && !input.dense())
      places_[at] = take(end, dense_bytes(input));
}

const std::byte* DenseCopies::of(size_t at, std::byte* const* inputs, std::byte* workspace) const {
  const backends::Operand& input = problem_.inputs[at];
  if (places_[at] == nowhere) return inputs[at];
  backends::strided_copy(input.dims, size_of(input.dtype), inputs[at], input.strides, workspace + places_[at],
                         backends::dense_strides(input.dims));
  return workspace + places_[at];
}

std::unique_ptr<ControlStep> make_control_step(const backends::Problem& problem,
                                               const std::vector<std::unique_ptr<ScheduleKernels>>& bodies) {
  if (ops::flow_of(problem.node->op) == ops::Flow::loop) return make_loop_step(problem, *bodies[0]);
  return make_branch_step(problem, *bodies[0], *bodies[1]);
}

}  // namespace tenon::cpu
