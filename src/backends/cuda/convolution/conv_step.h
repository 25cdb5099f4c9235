// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda {

/// A convolution as one launch: `Params` has the addresses x, y and, where the kernel adds one, residual, which
/// `enqueue` fills in; everything else is set when the step is made.
template <class Params>
class ConvStep : public Step {
 public:
  /// The image and the residual; weights, scales and bias are packed.
  bool reads(size_t input) const override { return input == 0 || input == 3; }
  void enqueue(const Launch& at) const override { enqueue(at, params_); }

 protected:
  void enqueue(const Launch& at, Params params) const {
    params.x = at.inputs[0], params.y = at.outputs[0];
    if constexpr (requires { params.residual; })
      if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }
  ConvStep(Device& device, const Source& source, const char* function, int shared_bytes = 0)
      : device_(device), function_(device.function(source, function, shared_bytes)) {}
  /// Keeps the bytes on the device; returns where they begin.
  Address pack(const void* bytes, size_t size) {
    packed_ = Buffer::kept(size);
    packed_.upload(bytes, size);
    return packed_.address();
  }

  Params params_{};
  Grid grid_;
  bool residual_ = false;

 private:
  Device& device_;
  Function function_;
  Buffer packed_;
};

}  // namespace tenon::cuda
