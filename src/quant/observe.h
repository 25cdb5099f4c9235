// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "quant/audit.h"
#include "quant/calibrate.h"
#include "quant/lab.h"

namespace tenon::quant {

/// What a run over the data leaves: its size depends on the graph alone.
struct Observations {
  std::vector<Histogram> groups;                // by scale group
  std::map<std::string, ChannelSums> channels;  // of the activations that anchors read, by value name
  int64_t samples = 0;
  std::vector<Auditor::Ends> ends;  // by scale group
  std::vector<plan::Coverage> coverage;
  std::vector<plan::Suspicion> suspicions;
  /// Batches spread over the data, with what judged_graph gives for them: at most `most_probes`, and as many as fit
  /// `probe_bytes`, but one at least.
  static constexpr size_t most_probes = 64, probe_bytes = size_t{96} << 20;
  struct Probe {
    std::vector<Tensor> inputs, outputs;
  };
  std::vector<Probe> probes;
};

/// Sizes of one batch for all inputs.
Shapes batch_shapes(const ir::Graph& graph, const Setting& setting);
/// The graph with outputs that a softmax makes replaced by what it reads: a class that wins by little is no sign of a
/// large error, nor one that wins by far of a small one.
ir::Graph judged_graph(ir::Graph graph);
/// Whether that is another graph.
bool is_judged_apart(const ir::Graph& graph);
/// The axis of channels in an anchor's activation.
int channel_axis(const ir::Node& anchor);

/// A run over the data that was cut short: what it had counted, so that the next one can go on.
struct Checkpoint {
  int64_t samples = 0;
  std::vector<Histogram> groups;
  std::map<std::string, ChannelSums> channels;
  Auditor::State audit;
};

/// Runs the graph over all data, or what `from` has not counted of it. Every few seconds `save` gets what has been
/// counted so far. Throws as calibrate does.
Observations observe(const ir::Graph& graph, const Structure& structure, Calibrator& data, const Setting& setting,
                     ThreadPool& thread_pool, const Checkpoint& from = {},
                     const std::function<void(const Checkpoint&)>& save = {});

}  // namespace tenon::quant
