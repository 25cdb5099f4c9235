// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "quant/observations.h"
#include "compile/calibrate.h"
#include "compile/value_observer.h"

namespace tenon::compile {

/// Sizes of one batch for all inputs.
Shapes batch_shapes(const ir::Graph& graph, const Setting& setting);
/// The graph with outputs that a softmax makes replaced by what it reads: a class that wins by little is no sign of a
/// large error, nor one that wins by far of a small one.
ir::Graph judged_graph(ir::Graph graph);
/// Whether that is another graph.
bool is_judged_apart(const ir::Graph& graph);

/// Runs the graph over all data, or what `from` has not counted of it. Every few seconds `save` gets what has been
/// counted so far. Throws as calibrate does.
quant::Observations observe(const ir::Graph& graph, const quant::Structure& structure, Calibrator& data,
                            const Setting& setting, ThreadPool& thread_pool, const quant::Checkpoint& from = {},
                            const std::function<void(const quant::Checkpoint&)>& save = {});

}  // namespace tenon::compile
