#include <tenon/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/device_program.h"

/// How the steps of a program on a GPU become recordings: one after the other, or branches beside each other.
namespace tenon::runtime {

void DeviceProgram::enqueue_beside(size_t first, size_t last) {
  std::vector<std::vector<Footprint>> touched;
  for (size_t at = first; at < last; ++at) {
    const BoundStep& step = steps_[at];
    const ir::Node& node = graph_.node(step.node);
    std::vector<Footprint> prints;
    const auto touch = [&](ir::ValueId value, bool writes) {
      if (value == ir::no_value || graph_.value(value).is_constant()) return;
      plan::Place place = layout_.places[value];
      place.offset = 0;  // the address has it
      prints.push_back(footprint(address(value), place, size_of(graph_.value(value).dtype), writes));
    };
    for (ir::ValueId value : node.inputs) touch(value, false);
    for (ir::ValueId value : node.outputs) touch(value, true);
    if (const size_t bytes = step.step->workspace_bytes(); bytes > 0) {
      const cuda::Address begin = workspaces_.back().address();
      prints.push_back({begin, begin + bytes, 0, bytes, true});
    }
    touched.push_back(std::move(prints));
  }
  const std::vector<Lane> plan = lanes(touched, most_lanes);
  std::vector<char> waited(plan.size(), 0), begun(most_lanes, 0);
  for (const Lane& lane : plan)
    for (const size_t other : lane.waits) waited[other] = 1;
  std::vector<size_t> tails(most_lanes, plan.size());
  for (size_t at = 0; at < plan.size(); ++at) tails[static_cast<size_t>(plan[at].lane)] = at;
  marks_.clear();
  const cuda::Mark& start = marks_.emplace(plan.size(), cuda::Mark(clock_.stream())).first->second;
  begun[0] = 1;
  for (size_t at = 0; at < plan.size(); ++at) {
    const auto lane = static_cast<size_t>(plan[at].lane);
    while (branches_.size() < lane) branches_.push_back(std::make_unique<cuda::Clock>());
    const cuda::Stream stream = lane == 0 ? clock_.stream() : branches_[lane - 1]->stream();
    width_ = std::max(width_, plan[at].lane + 1);
    if (!begun[lane] && plan[at].waits.empty()) start.hold(stream);
    for (const size_t other : plan[at].waits) marks_.at(other).hold(stream);
    std::optional<cuda::Joint> joint;
    if (!begun[lane] || !plan[at].waits.empty()) joint.emplace();
    begun[lane] = 1;
    enqueue(steps_[first + at], stream, lane);
    if (waited[at] || (lane > 0 && tails[lane] == at)) marks_.emplace(at, cuda::Mark(stream));
  }
  for (size_t lane = 1; lane < most_lanes; ++lane)
    if (tails[lane] < plan.size()) marks_.at(tails[lane]).hold(clock_.stream());
}

void DeviceProgram::sort_by_depth() {
  const std::vector<int> depth = plan::depths(graph_);
  std::vector<std::pair<ir::NodeId, std::string>> steps;
  for (size_t at = 0; at < order_.size(); ++at) steps.push_back({order_[at], keys_[at]});
  std::stable_sort(steps.begin(), steps.end(), [&](const auto& a, const auto& b) {
    return depth[static_cast<size_t>(a.first)] < depth[static_cast<size_t>(b.first)];
  });
  for (size_t at = 0; at < steps.size(); ++at) order_[at] = steps[at].first, keys_[at] = steps[at].second;
}

std::vector<DeviceProgram::Segment> DeviceProgram::record() {
  std::vector<Segment> segments;
  for (size_t at = 0; at < steps_.size();) {
    size_t end = at;
    while (end < steps_.size() && steps_[end].step) ++end;
    if (end == at) {
      segments.push_back({at, at + 1, {}});
      ++at;
      continue;
    }
    Segment segment{at, end, {}};
    segment.recording = cuda::Recording(clock_.stream(), [&] {
      if (beside_) return enqueue_beside(at, end);
      for (size_t step = at; step < end; ++step) enqueue(steps_[step], clock_.stream());
    });
    marks_.clear();
    segments.push_back(std::move(segment));
    at = end;
  }
  return segments;
}

DeviceProgram::Variant DeviceProgram::variant(const std::string& key, const std::string& kernel) {
  device_.use();
  Variant variant{{}, kernel, {}};
  for (size_t at = 0; at < steps_.size(); ++at) {
    if (keys_[at] != key) continue;
    backends::Problem problem = plan::device_problem_of(graph_, steps_[at].node, layout_, plan_);
    round_weights({&problem, 1});
    const cuda::Choice choice = cuda::choose(problem, device_.properties(), kernel);
    variant.steps.push_back({at, choice.kernel->make(problem, device_, choice.tactic)});
    const cuda::Step& made = *variant.steps.back().second;
    if (!cuda::fits_workspace(made)) throw Error(Code::resource, "the limit of workspace is reached");
    reserve_workspace(made.workspace_bytes());
    // It may read constants that the step before it had packed.
    const ir::Node& node = graph_.node(steps_[at].node);
    for (size_t input = 0; input < node.inputs.size(); ++input)
      if (const ir::ValueId value = node.inputs[input]; value != ir::no_value && graph_.value(value).is_constant())
        if (made.reads(input)) steps_[at].inputs[input] = constant(value);
  }
  exchange(variant);
  try {
    segments_ = record();
  } catch (...) {
    exchange(variant);
    throw;
  }
  exchange(variant);
  return variant;
}

void DeviceProgram::exchange(Variant& variant) {
  std::string kernel;
  for (auto& [at, step] : variant.steps) {
    step.swap(steps_[at].step);
    kernel = std::exchange(steps_[at].kernel, variant.kernel);
  }
  variant.kernel = kernel;
  segments_.swap(variant.segments);
}

}  // namespace tenon::runtime
