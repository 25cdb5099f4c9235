#pragma once
#include <tenon/tenon.h>

#include "backends/compiled_cache.h"
#include "plan/plan.h"

namespace tenon {

/// What an engine is in memory; src/engine/format.md describes the file.
struct Engine::Impl {
  plan::Plan plan;
  mutable backends::CompiledCache compiled = {};  // by its sessions
};

/// Whether the file begins as an engine does. False when it cannot be read.
bool is_engine_file(const std::string& path);

}  // namespace tenon
