// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/executable.h"

namespace tenon::cuda {

/// While it lives, operands lie where the aim has them.
class DeviceExecutable::Aiming {
 public:
  Aiming(DeviceExecutable& executable, const Aim* aim) : executable_(executable) { executable_.aim_ = aim; }
  ~Aiming() { executable_.aim_ = nullptr; }
  Aiming(const Aiming&) = delete;

 private:
  DeviceExecutable& executable_;
};

}  // namespace tenon::cuda
