// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/engine.h>

#include <memory>
#include <string>

#include "base/file.h"
#include "base/memory.h"
#include "plan/bind.h"
#include "plan/plan.h"

namespace tenon {

/// What an engine is in memory; format.h describes the file.
struct Engine::Impl {
  plan::Plan plan;
  mutable plan::Shared shared = {};  // by its sessions
  Files files = {};                  // that weights are in
  Logger logger = {};
  std::shared_ptr<Budget> budget = {};  // of all its sessions; null: the process's limits alone

  /// The plan, of which something is to be made. Throws Error(io) where its weights are no longer what was loaded.
  const plan::Plan& whole_plan() const {
    check(files);
    return plan;
  }
  /// Throws Error(io) where a run has read weights that were gone by then.
  void check_lost() const {
    if (any_pages_lost())
      for (const auto& file : files) file->check_lost();
  }
};

/// The way of Tenon's own stages into an engine.
struct EngineAccess {
  using Impl = Engine::Impl;
  static const Impl& of(const Engine& engine) { return *engine.impl_; }
  static Engine make(std::shared_ptr<const Impl> impl) { return Engine(std::move(impl)); }
};

inline const plan::Plan& plan_of(const Engine& engine) { return EngineAccess::of(engine).plan; }
/// An engine of that plan, with nothing else; its steps are made anew, from its records.
Engine engine_of(plan::Plan plan);
/// With the plan in the place of the engine's own: its logger and limits stay.
Engine with_plan(const Engine& engine, plan::Plan plan);

/// Whether the file begins as an engine does. False when it cannot be read.
bool is_engine_file(const std::string& path);

}  // namespace tenon
