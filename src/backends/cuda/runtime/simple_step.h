// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstring>

#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda {

/// One launch. `Params` begin with the addresses of the node's first `Inputs` inputs and of its first result, which
/// `enqueue` fills in; everything else is set when the step is made. Other inputs are not read.
template <size_t Inputs, class Params>
class SimpleStep : public Step {
 public:
  SimpleStep(Device& device, Function function, const Params& params, const Grid& grid)
      : device_(device), function_(function), params_(params), grid_(grid) {
    static_assert(sizeof(Params) >= (Inputs + 1) * sizeof(Address));
  }
  bool reads(size_t input) const override { return input < Inputs; }
  void enqueue(const Launch& at) const override {
    std::array<Address, Inputs + 1> addresses;
    for (size_t input = 0; input < Inputs; ++input) addresses[input] = at.inputs[input];
    addresses[Inputs] = at.outputs[0];
    Params params = params_;
    std::memcpy(static_cast<void*>(&params), addresses.data(), sizeof addresses);
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_;
  Grid grid_;
};

/// A step of the tactic's one source, whose kernel is `function`.
template <size_t Inputs, class Params>
std::unique_ptr<Step> simple_step(Device& device, const Tactic& tactic, const char* function, const Params& params,
                                  const Grid& grid) {
  return std::make_unique<SimpleStep<Inputs, Params>>(device, device.function(tactic.sources[0], function), params,
                                                      grid);
}

/// A thread for each of `count` results, 256 a block.
inline Grid grid_for(int64_t count) { return {ceil_div(count, 256), 1, 1, 256, 0}; }

/// An unsigned type of so many bytes as kernels name it, for elements that are moved as they are; empty where there is
/// none.
inline const char* bits_name(size_t bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : bytes == 8 ? "u64" : "";
}

}  // namespace tenon::cuda
