// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "quant/audit.h"
#include "quant/channel_sums.h"
#include "quant/histogram.h"

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

/// A run over the data that was cut short: what it had counted, so that the next one can go on.
struct Checkpoint {
  int64_t samples = 0;
  std::vector<Histogram> groups;
  std::map<std::string, ChannelSums> channels;
  Auditor::State audit;
};

/// The axis of channels in an anchor's activation.
int channel_axis(const ir::Node& anchor);

}  // namespace tenon::quant
