// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "backends/backend.h"

namespace tenon::cuda {

/// Times tactics in recorded graphs on a GPU, on small random numbers.
std::unique_ptr<backends::TacticTimer> make_timer(int device);

}  // namespace tenon::cuda
