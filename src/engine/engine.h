#pragma once
#include <tenon/tenon.h>

#include "plan/plan.h"

namespace tenon {

/// What an engine is in memory; src/engine/format.md describes the file.
struct Engine::Impl {
  plan::Plan plan;
};

/// Whether the file begins as an engine does. False when it cannot be read.
bool is_engine_file(const std::string& path);

}  // namespace tenon
