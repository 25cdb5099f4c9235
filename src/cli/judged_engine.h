// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "engine/engine.h"
#include "plan/plan.h"

namespace tenon::cli {

/// A session for the sizes that the engine was built for.
struct JudgedEngine {
  const Engine engine;
  const ir::Graph graph;
  Session session;
  std::vector<Tensor> outputs;

  explicit JudgedEngine(const Engine& one)
      : engine(one),
        graph(plan::concretise(plan_of(one).graph, plan_of(one).shapes)),
        session(one.session()),
        outputs(one.outputs().size()) {
    for (const ir::ValueId id : graph.inputs)
      if (!graph.value(id).shape || !ir::is_constant(*graph.value(id).shape))
        throw Error(Code::usage, "engines can only be judged at known sizes",
                    {.where = "input \"" + graph.value(id).name + "\"", .hint = "give its sizes with --shapes"});
  }
};

}  // namespace tenon::cli
