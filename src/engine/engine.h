#pragma once
#include <tenon/tenon.h>

#include "plan/plan.h"

namespace tenon {

/// What an engine is in memory. The file form is in engine/format.h.
struct Engine::Impl {
  plan::Plan plan;
};

}  // namespace tenon
