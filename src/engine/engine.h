#pragma once
#include <tenon/tenon.h>

#include "backends/compiled_cache.h"
#include "base/file.h"
#include "plan/plan.h"

namespace tenon {

/// What an engine is in memory; src/engine/format.md describes the file.
struct Engine::Impl {
  plan::Plan plan;
  mutable backends::CompiledCache compiled = {};     // by its sessions
  std::shared_ptr<const MappedFile> file = nullptr;  // that the weights are in, of a loaded engine

  /// The plan, of which something is to be made. Throws Error(io) where its weights are no longer what was loaded.
  const plan::Plan& whole_plan() const {
    if (file) file->check();
    return plan;
  }
};

/// Whether the file begins as an engine does. False when it cannot be read.
bool is_engine_file(const std::string& path);

}  // namespace tenon
