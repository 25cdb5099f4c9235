// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>

#include <string>

namespace tenon::backends {

/// What a build asks of the device that it is for.
struct Goal {
  Precision precision = Precision::fp32;
  bool strict = false;          // no Winograd or Strassen; on a GPU f32 on plain units, integers with the CPU's bits
  bool vendor = true;           // libraries of the device's vendor may serve
  bool rounds_to_bf16 = false;  // on the host: products of f32 may round their operands
  std::string isa = {};         // of the host that the build was made on
};

}  // namespace tenon::backends
