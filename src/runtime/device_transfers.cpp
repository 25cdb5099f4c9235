#include <cstring>

#include "runtime/device_program.h"

/// Inputs and outputs of a program on a GPU, which lie in the memory of the process or on the device.
namespace tenon::runtime {
namespace {

cuda::Address address_of(const Tensor& tensor) { return reinterpret_cast<cuda::Address>(tensor.data()); }

}  // namespace

void DeviceProgram::upload(std::span<const Tensor> inputs) {
  device_.use();
  const cuda::Driver& d = cuda::driver();
  for (size_t at = 0; at < inputs.size(); ++at) {
    const ir::ValueId id = graph_.inputs[at];
    const size_t bytes = inputs[at].bytes();
    std::byte* staged = staging_.at(id).data();
    if (bytes == 0) continue;
    if (!inputs[at].on_cpu()) {
      cuda::check(d.MemcpyDtoDAsync(inputs_.at(id).address(), address_of(inputs[at]), bytes, clock_.stream()),
                  "cuMemcpyDtoD");
      // Steps on the CPU read inputs there.
      if (has_host_steps())
        cuda::check(d.MemcpyDtoHAsync(staged, address_of(inputs[at]), bytes, clock_.stream()), "cuMemcpyDtoH");
      continue;
    }
    if (inputs[at].data() != staged) std::memcpy(staged, inputs[at].data(), bytes);
    cuda::check(d.MemcpyHtoDAsync(inputs_.at(id).address(), staged, bytes, clock_.stream()), "cuMemcpyHtoD");
  }
}

void DeviceProgram::download(std::span<const Tensor> targets) {
  const cuda::Driver& d = cuda::driver();
  for (size_t at = 0; at < graph_.outputs.size(); ++at) {
    const ir::ValueId id = graph_.outputs[at];
    const plan::Place& place = layout_.places[id];
    if (graph_.value(id).is_constant() || place.storage < 0) continue;
    const size_t bytes = static_cast<size_t>(place.dims.elements()) * size_of(graph_.value(id).dtype);
    const Tensor target = at < targets.size() ? targets[at] : Tensor();
    if (target && !target.on_cpu()) {
      cuda::check(d.MemcpyDtoDAsync(address_of(target), address(id), bytes, clock_.stream()), "cuMemcpyDtoD");
      continue;
    }
    void* to = target ? const_cast<void*>(target.data()) : staging_.at(id).data();
    cuda::check(d.MemcpyDtoHAsync(to, address(id), bytes, clock_.stream()), "cuMemcpyDtoH");
  }
  clock_.synchronise();
}

}  // namespace tenon::runtime
