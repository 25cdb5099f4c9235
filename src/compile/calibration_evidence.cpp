// SPDX-License-Identifier: Apache-2.0
#include "compile/calibration_evidence.h"

#include <algorithm>

namespace tenon::compile {
namespace {

/// The share of values that the grid cannot reach, half a step counted to it.
double saturated(const quant::Histogram& histogram, const quant::Quantiser& quantiser) {
  const quant::Range range = quantiser.range();
  const double width = histogram.width();
  int64_t outside = 0;
  for (int sign = 0; sign < 2; ++sign) {
    const auto counts = sign ? histogram.negatives() : histogram.positives();
    const double end = (sign ? -range.low : range.high) + quantiser.scale / 2;
    for (size_t at = 0; at < counts.size(); ++at) {
      if (counts[at] == 0 || (static_cast<double>(at) + 0.5) * width <= end) continue;
      outside += counts[at] - (sign == 0 && at == 0 ? histogram.zeros() : 0);
    }
  }
  return histogram.count() ? static_cast<double>(outside) / static_cast<double>(histogram.count()) : 0;
}

int64_t dead_channels(const quant::ChannelSums& sums) {
  return static_cast<int64_t>(std::count(sums.squares.begin(), sums.squares.end(), 0.0));
}

}  // namespace

plan::Evidence evidence_of(const CalibrationContext& context, const quant::Structure& structure,
                           const std::vector<double>& errors, const quant::Recipe& recipe) {
  const ir::Graph& graph = context.graph;
  const quant::Observations& seen = context.seen;
  plan::Evidence evidence;
  evidence.samples = seen.samples;
  evidence.error = recipe.error;
  evidence.coverage = seen.coverage;
  evidence.suspicions = seen.suspicions;
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const ir::Node& node = graph.nodes[at];
    if (quant::role_of(graph, node) != quant::Role::anchor) continue;
    const std::string& name = quant::result_name(graph, node);
    const auto kept = recipe.kept.find(name);
    const int group = structure.group[node.inputs[0]];
    evidence.layers.push_back({node.label(), recipe.anchors.count(name) > 0,
                               kept == recipe.kept.end() ? "" : kept->second,
                               structure.integer[at] && group >= 0 ? errors[static_cast<size_t>(group)] : -1});
  }
  for (size_t id = 0; id < graph.values.size(); ++id) {
    if (!structure.source[id]) continue;
    const auto group = static_cast<size_t>(structure.group[id]);
    const std::string& name = graph.values[id].name;
    const auto known = context.setting.names.find(name);
    const quant::Auditor::Ends& ends = seen.ends[group];
    plan::TensorEvidence tensor{known == context.setting.names.end() ? name : known->second, ends.low, ends.high,
                                ends.low_from, ends.high_from};
    if (const auto stored = recipe.values.find(name); stored != recipe.values.end()) {
      quant::Quantiser widest = stored->second;
      if (const auto factors = recipe.factors.find(name); factors != recipe.factors.end())
        widest.scale *= *std::max_element(factors->second.begin(), factors->second.end());
      tensor.scale = widest.scale;
      tensor.zero = widest.zero;
      tensor.saturated = saturated(seen.groups[group], widest);
    }
    if (const auto sums = seen.channels.find(name); sums != seen.channels.end()) {
      tensor.channels = static_cast<int64_t>(sums->second.sum.size());
      tensor.dead = dead_channels(sums->second);
    }
    evidence.tensors.push_back(std::move(tensor));
  }
  return evidence;
}

plan::Evidence evidence_as_placed(const ir::Graph& graph, const quant::Recipe& recipe, const quant::Recipe& placed) {
  plan::Evidence evidence = recipe.evidence;
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive || node.outputs.empty()) continue;
    const std::string& name = quant::result_name(graph, node);
    if (!recipe.anchors.count(name) || placed.anchors.count(name)) continue;
    const auto kept = placed.kept.find(name);
    for (plan::LayerEvidence& layer : evidence.layers)
      if (layer.node == node.label()) {
        layer.integer = false;
        layer.reason = kept == placed.kept.end() ? "INT8 does not pay for the whole" : kept->second;
      }
  }
  return evidence;
}

}  // namespace tenon::compile
