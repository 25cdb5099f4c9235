// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "backends/backend.h"

/// NVIDIA's management library, opened when asked for: what a GPU does while it works.
namespace tenon::cuda {

/// Free bytes of a device's memory, which needs no context; negative where the library does not say.
int64_t free_memory(int device);

/// Samples a device every 100 ms.
std::unique_ptr<backends::Meter> make_meter(int device);

}  // namespace tenon::cuda
