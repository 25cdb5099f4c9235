// SPDX-License-Identifier: Apache-2.0
#include "quant/trt_cache.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <bit>
#include <charconv>

#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

constexpr const char* our_header = "TRT-8601-EntropyCalibration2";

[[noreturn]] void refuse(int line, const std::string& why) {
  throw Error(Code::io, "this is no TensorRT calibration table",
              {.where = fmt::format("line {}", line), .why = why, .hint = "lines look like \"conv1: 3c88edfc\""});
}

/// What the activation of a value's producer leaves of a symmetric range.
Range leave(const ir::Graph& graph, ir::ValueId id, float threshold) {
  const ir::Node* producer = graph.producer(id);
  const std::string activation = producer ? producer->text("activation", "") : "";
  if (activation == "relu" || activation == "sigmoid") return {0, threshold};
  if (activation == "clip" && producer->real("alpha", -INFINITY) >= 0) return {0, threshold};
  constexpr float least_silu = -0.27846454f;
  if (activation == "silu") return {std::max(-threshold, least_silu), threshold};
  return {-threshold, threshold};
}

}  // namespace

bool is_tensorrt_table(const std::string& text) { return text.starts_with("TRT-"); }

TensorRtTable parse_tensorrt_table(const std::string& text) {
  TensorRtTable table;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1) {
      if (!is_tensorrt_table(line)) refuse(1, "it does not begin with TRT-");
      table.header = line;
      continue;
    }
    if (line.empty()) continue;
    const size_t colon = line.rfind(": ");
    if (colon == std::string::npos || colon == 0) refuse(number, "it has no \": \"");
    uint32_t bits = 0;
    const char *begin = line.data() + colon + 2, *last = line.data() + line.size();
    const auto [stop, fault] = std::from_chars(begin, last, bits, 16);
    if (fault != std::errc() || stop != last) refuse(number, "the scale is no hexadecimal number of 32 bits");
    const auto scale = std::bit_cast<float>(bits);
    if (bits == 0) continue;
    if (!std::isfinite(scale) || scale <= 0) refuse(number, "the scale is not a number above zero");
    table.scales[line.substr(0, colon)] = scale;
  }
  if (number == 0) refuse(1, "it is empty");
  return table;
}

std::string tensorrt_table(const std::map<std::string, float>& scales) {
  std::string text = std::string(our_header) + "\n";
  for (const auto& [name, scale] : scales) text += fmt::format("{}: {:x}\n", name, std::bit_cast<uint32_t>(scale));
  return text;
}

std::map<std::string, float> tensorrt_scales(const Recipe& recipe, const std::map<std::string, std::string>& names) {
  std::map<std::string, float> scales;
  for (const auto& [name, quantiser] : recipe.values)
    if (const auto found = names.find(name); found != names.end()) {
      const Range range = quantiser.range();
      scales[found->second] = std::max(-range.low, range.high) / 127;
    }
  return scales;
}

ForeignRecipe recipe_of(const TensorRtTable& table, const ir::Graph& graph,
                        const std::map<std::string, std::string>& names) {
  const auto threshold = [&](ir::ValueId id) -> float {
    const auto name = names.find(graph.value(id).name);
    const auto found = name == names.end() ? table.scales.end() : table.scales.find(name->second);
    return found == table.scales.end() ? 0 : found->second * 127;
  };
  // The widest of a group's sources stands for all of it.
  const auto ranges_of = [&](const Structure& structure) {
    std::vector<Range> ranges(static_cast<size_t>(structure.groups));
    for (size_t id = 0; id < graph.values.size(); ++id) {
      if (structure.group[id] < 0) continue;
      const Range own = leave(graph, static_cast<ir::ValueId>(id), threshold(static_cast<ir::ValueId>(id)));
      Range& range = ranges[structure.group[id]];
      // A carried value has the range of what is carried, whatever the table says of it.
      if (!structure.source[id] && range.high > 0) continue;
      range = {std::min(range.low, own.low), std::max(range.high, own.high)};
    }
    return ranges;
  };
  ForeignRecipe result;
  const Structure whole = structure_of(graph);
  const std::vector<Range> all = ranges_of(whole);
  Reasons keep(graph.nodes.size());
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    if (!whole.integer[at]) continue;
    ++result.wanted;
    if (all[whole.group[graph.nodes[at].inputs[0]]].high > 0) ++result.covered;
    else keep[at] = "the calibration table does not cover its input";
  }
  const Structure structure = structure_of(graph, keep);
  const std::vector<Range> ranges = ranges_of(structure);
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0 && ranges[structure.group[id]].high > 0)
      result.recipe.values[graph.values[id].name] = Quantiser::of(ranges[structure.group[id]]);
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const ir::Node& node = graph.nodes[at];
    const std::string& name = result_name(graph, node);
    if (!structure.reasons[at].empty()) result.recipe.kept[name] = structure.reasons[at];
    if (structure.integer[at]) result.recipe.anchors[name].scales = weight_scales(weights_of(graph, node), {});
  }
  return result;
}

}  // namespace tenon::quant
