// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "explain/report.h"

namespace tenon::explain {

/// The report of an engine. With `measure` its steps are timed here, on random inputs of the sizes it was tuned for, as
/// are those of the same engine in the other of floating point and INT8, and their floors are known; else it has the
/// times of the build.
Report examined(const Engine& engine, int threads, bool measure);

}  // namespace tenon::explain
