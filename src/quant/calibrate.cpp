#include "quant/calibrate.h"

#include "quant/calibrators.h"
#include "quant/observe.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

/// Mean of x^2, or of x, by channel.
std::vector<double> means(const Observations& seen, const std::string& value, bool squares) {
  const auto found = seen.channels.find(value);
  if (found == seen.channels.end()) return {};
  std::vector<double> result = squares ? found->second.squares : found->second.sum;
  for (double& entry : result) entry /= static_cast<double>(found->second.positions);
  return result;
}

/// The bias that undoes the mean error which rounding the weights makes.
std::vector<float> corrected_bias(const ir::Graph& graph, const ir::Node& node, const WeightView& view,
                                  const std::vector<float>& scales, const std::vector<double>& mean) {
  const Tensor* bias = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
  std::vector<float> result(static_cast<size_t>(view.rows));
  for (int64_t row = 0; row < view.rows; ++row) {
    double sum = bias ? bias->data<float>()[bias->elements() == 1 ? 0 : row] : 0;
    for (int64_t i = 0; i < view.inner; ++i) {
      const float weight = view.at(row, i);
      sum += (weight - static_cast<float>(stored_weight(weight, scales[row])) * scales[row]) *
             mean[view.channel(row, i)];
    }
    result[row] = static_cast<float>(sum);
  }
  return result;
}

}  // namespace

Recipe calibrate(const ir::Graph& graph, Calibrator& data, const Setting& setting) {
  const Structure structure = structure_of(graph);
  Team team(setting.threads);
  const Observations seen = observe(graph, structure, data, setting, team);
  const CalibrationMethod method = setting.options.method == CalibrationMethod::automatic ? CalibrationMethod::mse
                                                                                          : setting.options.method;
  std::vector<Quantiser> groups;
  for (const Histogram& histogram : seen.groups)
    groups.push_back(Quantiser::of(range_of(histogram, method, setting.options.percentile)));

  Recipe recipe;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0) recipe.values[graph.values[id].name] = groups[structure.group[id]];
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    if (!structure.integer[at]) continue;
    const ir::Node& node = graph.nodes[at];
    const WeightView view = weights_of(graph, node);
    const std::string& input = graph.value(node.inputs[0]).name;
    WeightQuantiser& weights = recipe.anchors[graph.value(node.outputs[0]).name];
    weights.scales = weight_scales(view, means(seen, input, true));
    if (const std::vector<double> mean = means(seen, input, false); !mean.empty())
      weights.bias = corrected_bias(graph, node, view, weights.scales, mean);
  }
  return recipe;
}

}  // namespace tenon::quant
