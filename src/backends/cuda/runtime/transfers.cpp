// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cuda/runtime/aims.h"

/// Inputs and outputs of an executable, which lie in the memory of the process or on the device.
namespace tenon::cuda {
namespace {

Address place_of(const Tensor& tensor) { return reinterpret_cast<Address>(tensor.data()); }

/// 0 where it is not on the device.
Address device_place_of(const Tensor& tensor) { return tensor && !tensor.on_cpu() ? place_of(tensor) : 0; }

}  // namespace

void DeviceExecutable::upload(std::span<const Tensor> inputs) {
  device_.use();
  const Driver& d = driver();
  for (size_t at = 0; at < inputs.size(); ++at) {
    const ir::ValueId id = graph().inputs[at];
    const size_t bytes = inputs[at].bytes();
    std::byte* staged = staging_.at(id).data();
    if (bytes == 0 || is_aimed_input(at)) continue;
    if (!inputs[at].on_cpu()) {
      check(d.MemcpyDtoDAsync(inputs_.at(id).address(), place_of(inputs[at]), bytes, clock_.stream()), "cuMemcpyDtoD");
      // Steps on the CPU read inputs there.
      if (has_host_steps())
        check(d.MemcpyDtoHAsync(staged, place_of(inputs[at]), bytes, clock_.stream()), "cuMemcpyDtoH");
      continue;
    }
    if (inputs[at].data() != staged) std::memcpy(staged, inputs[at].data(), bytes);
    check(d.MemcpyHtoDAsync(inputs_.at(id).address(), staged, bytes, clock_.stream()), "cuMemcpyHtoD");
  }
}

void DeviceExecutable::download(std::span<const Tensor> targets) {
  const Driver& d = driver();
  for (size_t at = 0; at < graph().outputs.size(); ++at) {
    const ir::ValueId id = graph().outputs[at];
    const backends::Place& place = layout().places[id];
    if (graph().value(id).is_constant() || place.storage < 0 || is_aimed_output(at)) continue;
    const size_t bytes = bytes_of(id);
    const Tensor target = at < targets.size() ? targets[at] : Tensor();
    if (target && !target.on_cpu()) {
      check(d.MemcpyDtoDAsync(place_of(target), address_of(id), bytes, clock_.stream()), "cuMemcpyDtoD");
      continue;
    }
    void* to = target ? const_cast<void*>(target.data()) : staging_.at(id).data();
    check(d.MemcpyDtoHAsync(to, address_of(id), bytes, clock_.stream()), "cuMemcpyDtoH");
  }
  clock_.synchronise();
}

void DeviceExecutable::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  watched([&] {
    const std::lock_guard lock(arena_->running);
    given_.clear();
    for (const Tensor& input : inputs) given_.push_back(device_place_of(input));
    for (size_t at = 0; at < outputs.size(); ++at)
      given_.push_back(at < targets.size() ? device_place_of(targets[at]) : 0);
    const Aiming aiming(*this, aim_at(given_));
    upload(inputs);
    run_segments();
    download(targets);
  });
  heed_alarm();
  for (size_t at = 0; at < outputs.size(); ++at) {
    const ir::ValueId id = graph().outputs[at];
    const backends::Place& place = layout().places[id];
    const Tensor target = at < targets.size() ? targets[at] : Tensor();
    if (const Tensor* constant = graph().constant(id)) outputs[at] = *constant;
    else if (place.storage >= 0)
      outputs[at] = target ? target : Tensor::view(graph().value(id).dtype, place.dims, staging_.at(id).data());
    else outputs[at] = inputs[std::find(graph().inputs.begin(), graph().inputs.end(), id) - graph().inputs.begin()];
    if (target) backends::fill(outputs[at], target);
  }
}

}  // namespace tenon::cuda
