// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "backends/backend.h"

namespace tenon::cpu {

/// Times host kernels on small finite numbers, by all threads of a pool of its own.
std::unique_ptr<backends::TacticTimer> make_timer(int threads);

}  // namespace tenon::cpu
