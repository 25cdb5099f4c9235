// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/buffer.h"

namespace tenon::cuda {

/// Memory of a device for the operands of kernels that are timed. What a kernel takes may depend on the numbers that it
/// reads, and kernels before it wrote their results here: renew() puts small numbers back.
class TimingMemory {
 public:
  /// At least so many bytes. Throws Error(resource) as Buffer does.
  void reserve(size_t bytes);
  /// The first bytes are small random numbers again, as f32 and as f16: in order on the stream.
  void renew(size_t bytes, Stream stream);
  Address address() const { return memory_.address(); }

 private:
  Buffer memory_, numbers_;
};

}  // namespace tenon::cuda
