// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/cuda/runtime/executable.h"

/// How the steps of an executable become recordings: one after the other, or branches at the same time.
namespace tenon::cuda {

struct DeviceExecutable::DeviceVariant : Variant {
  std::vector<std::pair<size_t, std::unique_ptr<Step>>> steps;
  std::string kernel;
  std::vector<Segment> segments;
};

std::vector<std::vector<Footprint>> DeviceExecutable::footprints(size_t first, size_t last) const {
  std::vector<std::vector<Footprint>> touched;
  for (size_t at = first; at < last; ++at) {
    const ir::Node& node = graph().node(steps_[at].node);
    std::vector<Footprint> prints;
    const auto touch = [&](ir::ValueId value, bool writes) {
      if (value == ir::no_value || graph().value(value).is_constant()) return;
      backends::Place place = layout().places[value];
      place.offset = 0;  // the address has it
      prints.push_back(footprint(address_of(value), place, size_of(graph().value(value).dtype), writes));
    };
    for (ir::ValueId value : node.inputs) touch(value, false);
    for (ir::ValueId value : node.outputs) touch(value, true);
    if (const size_t bytes = steps_[at].step->workspace_bytes(); bytes > 0) {
      const Address begin = workspaces_.back().address();
      prints.push_back({begin, begin + bytes, 0, bytes, true});
    }
    touched.push_back(std::move(prints));
  }
  return touched;
}

void DeviceExecutable::enqueue_concurrently(size_t first, size_t last) {
  const std::vector<StreamChoice> plan = choose_streams(footprints(first, last), most_streams);
  std::vector<char> waited(plan.size(), 0), begun(most_streams, 0);
  for (const StreamChoice& stream_at : plan)
    for (const size_t other : stream_at.waits) waited[other] = 1;
  std::vector<size_t> tails(most_streams, plan.size());
  for (size_t at = 0; at < plan.size(); ++at) tails[static_cast<size_t>(plan[at].stream_at)] = at;
  marks_.clear();
  const Mark& start = marks_.emplace(plan.size(), Mark(clock_.stream())).first->second;
  begun[0] = 1;
  for (size_t at = 0; at < plan.size(); ++at) {
    const auto stream_at = static_cast<size_t>(plan[at].stream_at);
    while (branches_.size() < stream_at) branches_.push_back(std::make_unique<Clock>());
    const Stream stream = stream_at == 0 ? clock_.stream() : branches_[stream_at - 1]->stream();
    width_ = std::max(width_, plan[at].stream_at + 1);
    if (!begun[stream_at] && plan[at].waits.empty()) start.hold(stream);
    for (const size_t other : plan[at].waits) marks_.at(other).hold(stream);
    std::optional<EventWait> event_wait;
    if (!begun[stream_at] || !plan[at].waits.empty()) event_wait.emplace();
    begun[stream_at] = 1;
    enqueue(steps_[first + at], stream, stream_at);
    if (waited[at] || (stream_at > 0 && tails[stream_at] == at)) marks_.emplace(at, Mark(stream));
  }
  for (size_t stream_at = 1; stream_at < most_streams; ++stream_at)
    if (tails[stream_at] < plan.size()) marks_.at(tails[stream_at]).hold(clock_.stream());
}

std::vector<DeviceExecutable::Segment> DeviceExecutable::record() {
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
    segment.recording = Recording(clock_.stream(), [&] {
      if (schedule().concurrent) return enqueue_concurrently(at, end);
      enqueue_in_order(at, end);
    });
    marks_.clear();
    segments.push_back(std::move(segment));
    at = end;
  }
  return segments;
}

std::unique_ptr<backends::StreamExecutable::Variant> DeviceExecutable::variant(const std::string& key,
                                                                               const std::string& tactic) {
  device_.use();
  auto variant = std::make_unique<DeviceVariant>();
  variant->kernel = tactic;
  for (size_t at = 0; at < steps_.size(); ++at) {
    if (schedule().steps[at].key != key) continue;
    variant->steps.push_back({at, compiled_->step_by(at, tactic, thread_pool_)});
    const Step& made = *variant->steps.back().second;
    if (!fits_workspace(made)) throw Error(Code::resource, "the limit of workspace is reached");
    reserve_workspace(made.workspace_bytes());
    // It may read constants that the step before it had packed.
    const ir::Node& node = graph().node(steps_[at].node);
    for (size_t input = 0; input < node.inputs.size(); ++input)
      if (const ir::ValueId value = node.inputs[input]; value != ir::no_value && graph().value(value).is_constant())
        if (made.reads(input)) steps_[at].inputs[input] = compiled_->constant(value);
  }
  exchange(*variant);
  try {
    segments_ = record();
  } catch (...) {
    exchange(*variant);
    throw;
  }
  exchange(*variant);
  return variant;
}

void DeviceExecutable::exchange(Variant& other) {
  auto& variant = static_cast<DeviceVariant&>(other);
  std::string kernel;
  for (auto& [at, step] : variant.steps) {
    BoundStep& bound = steps_[at];
    step.swap(bound.own);
    bound.step = bound.own ? bound.own.get() : compiled_->step(at);
    kernel = std::exchange(bound.kernel, variant.kernel);
  }
  variant.kernel = kernel;
  segments_.swap(variant.segments);
  aims_.clear();
}

}  // namespace tenon::cuda
