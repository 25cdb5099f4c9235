// SPDX-License-Identifier: Apache-2.0
#include "quant/cache.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

using Json = nlohmann::json;
constexpr int cache_version = 2;

[[noreturn]] void damaged(const std::string& why) {
  throw Error(Code::io, "the calibration cache is damaged", {.why = why, .hint = "delete it and calibrate again"});
}

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

const Json& entry(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) damaged(fmt::format("it has no \"{}\"", key));
  return *found;
}

std::string text_of(const Json& json, const char* key) {
  const Json& found = entry(json, key);
  if (!found.is_string()) damaged(fmt::format("\"{}\" is no text", key));
  return found.get<std::string>();
}

float real_of(const Json& json) {
  if (!json.is_number()) damaged("a number is missing");
  const auto value = json.get<double>();
  if (!(std::fabs(value) <= std::numeric_limits<float>::max())) damaged("a number is not finite");
  return static_cast<float>(value);
}

float scale_of(const Json& json) {
  const float scale = real_of(json);
  if (!(scale > 0)) damaged("a scale is not above zero");
  return scale;
}

std::vector<float> reals_of(const Json& json, size_t count, bool scales) {
  if (!json.is_array() || json.size() != count) damaged(fmt::format("a list should hold {} numbers", count));
  std::vector<float> values;
  for (const Json& value : json) values.push_back(scales ? scale_of(value) : real_of(value));
  return values;
}

void read_values(const Json& json, const ir::Graph& graph, Recipe& recipe) {
  if (!json.is_object()) damaged("\"values\" is no object");
  std::map<std::string, const ir::Value*> known;
  for (const ir::Value& value : graph.values) known[value.name] = &value;
  for (const auto& [name, numbers] : json.items()) {
    const auto found = known.find(name);
    if (found == known.end() || found->second->is_constant() || found->second->dtype != DType::f32)
      damaged("the graph has no tensor \"" + name + "\" to quantise");
    if (!numbers.is_array() || numbers.size() != 2 || !numbers[1].is_number_integer())
      damaged("\"" + name + "\" has no scale and zero point");
    const auto zero = numbers[1].get<int64_t>();
    if (zero < 0 || zero > 255) damaged("the zero point of \"" + name + "\" is not in 0..255");
    recipe.values[name] = {scale_of(numbers[0]), static_cast<int>(zero)};
  }
}

void read_factors(const Json& json, const ir::Graph& graph, Recipe& recipe) {
  if (!json.is_object()) damaged("\"factors\" is no object");
  for (const ir::Value& value : graph.values) {
    const auto found = json.find(value.name);
    if (found == json.end()) continue;
    const bool known = recipe.values.count(value.name) && value.shape && !value.shape->empty() &&
                       value.shape->back().is_constant();
    if (!known) damaged("\"" + value.name + "\" has factors but no channels");
    recipe.factors[value.name] = reals_of(*found, static_cast<size_t>(value.shape->back().value()), true);
  }
  if (recipe.factors.size() != json.size()) damaged("it has factors of tensors that the graph lacks");
}

/// A letter for each weight: most_change below 'm' to most_change above it.
constexpr char no_change = 'm';

std::vector<int8_t> changes_of(const Json& json, const WeightView& view, const WeightQuantiser& how) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() != static_cast<size_t>(view.rows * view.inner))
    damaged("there is not a change for each weight");
  std::vector<int8_t> changes;
  for (const char letter : json.get_ref<const std::string&>()) {
    if (std::abs(letter - no_change) > most_change) damaged("a weight changes too much");
    changes.push_back(static_cast<int8_t>(letter - no_change));
  }
  for (int64_t row = 0; row < view.rows; ++row) {
    std::vector<int8_t> stored = store_row(view, row, how.scales[row], how.paired);
    for (int64_t i = 0; i < view.inner; ++i) {
      const int weight = stored[i] + changes[row * view.inner + i];
      if (std::abs(weight) > 127) damaged("a weight is outside the range of INT8");
      stored[i] = static_cast<int8_t>(weight);
    }
    if (how.paired && !are_paired(view, stored)) damaged("neighbouring weights leave sixteen bits");
  }
  return changes;
}

void read_anchors(const Json& json, const ir::Graph& graph, Recipe& recipe) {
  if (!json.is_object()) damaged("\"anchors\" is no object");
  std::map<std::string, const ir::Node*> known;
  for (const ir::Node& node : graph.nodes)
    if (role_of(graph, node) == Role::anchor) known[result_name(graph, node)] = &node;
  for (const auto& [name, lists] : json.items()) {
    const auto found = known.find(name);
    if (found == known.end()) damaged("the graph has no layer \"" + name + "\" to quantise");
    const auto factors = recipe.factors.find(graph.value(found->second->inputs[0]).name);
    if (factors != recipe.factors.end() &&
        static_cast<int64_t>(factors->second.size()) != weights_of(graph, *found->second).channels())
      damaged("\"" + factors->first + "\" has not a factor for each channel");
    const WeightView view = weights_of(graph, *found->second, recipe.factors);
    const auto rows = static_cast<size_t>(view.rows);
    WeightQuantiser& weights = recipe.anchors[name];
    if (!lists.is_object()) damaged("\"" + name + "\" is no object");
    weights.scales = reals_of(entry(lists, "scales"), rows, true);
    if (lists.contains("paired")) weights.paired = lists["paired"].is_boolean() && lists["paired"].get<bool>();
    if (lists.contains("bias")) weights.bias = reals_of(lists["bias"], rows, false);
    if (lists.contains("changes")) weights.changes = changes_of(lists["changes"], view, weights);
  }
}

}  // namespace

CacheKey key_of(const ir::Graph& graph, const std::string& preprocessing, const CalibrationOptions& options) {
  CacheKey key;
  const std::string text = ir::print(graph, nullptr, 0);
  key.graph = hash_text(hash64(std::as_bytes(std::span(text))));
  std::vector<uint64_t> hashes;
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && size_of(value.dtype) > 0)
      hashes.push_back(hash64({value.constant.data<std::byte>(), value.constant.bytes()}));
  key.weights = hash_text(hash64(std::as_bytes(std::span(hashes))));
  key.preprocessing = preprocessing;
  key.options = fmt::format("method {} percentile {} count {} error {}", static_cast<int>(options.method),
                            options.percentile, options.count, options.target_error);
  if (options.reconstruct) key.options += " reconstructed";
  for (const auto& [name, precision] : options.keep) key.options += " " + name + "=" + precision;
  return key;
}

std::string write_cache(const CacheKey& key, const Recipe& recipe) {
  nlohmann::ordered_json json{{"tenon_calibration", cache_version},
                              {"graph", key.graph},
                              {"weights", key.weights},
                              {"preprocessing", key.preprocessing},
                              {"options", key.options},
                              {"error", recipe.error},
                              {"values", nlohmann::ordered_json::object()},
                              {"anchors", nlohmann::ordered_json::object()},
                              {"kept", nlohmann::ordered_json::object()}};
  for (const auto& [name, quantiser] : recipe.values) json["values"][name] = {quantiser.scale, quantiser.zero};
  json["factors"] = nlohmann::ordered_json::object();
  for (const auto& [name, factors] : recipe.factors) json["factors"][name] = factors;
  for (const auto& [name, weights] : recipe.anchors) {
    json["anchors"][name]["scales"] = weights.scales;
    if (weights.paired) json["anchors"][name]["paired"] = true;
    if (!weights.bias.empty()) json["anchors"][name]["bias"] = weights.bias;
    std::string letters;
    for (const int8_t change : weights.changes) letters += static_cast<char>(no_change + change);
    if (!letters.empty()) json["anchors"][name]["changes"] = letters;
  }
  for (const auto& [name, reason] : recipe.kept) json["kept"][name] = reason;
  if (!recipe.evidence.empty()) json["evidence"] = plan::json_of(recipe.evidence);
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

CachedRecipe read_cache(const std::string& text, const CacheKey& key, const ir::Graph& graph) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) damaged("it is no JSON object");
  const Json& stated = entry(json, "tenon_calibration");
  if (!stated.is_number_integer() || stated.get<int64_t>() != cache_version) damaged("it is of another version");
  CachedRecipe result;
  const std::pair<const char*, const std::string*> parts[] = {
      {"graph", &key.graph}, {"weights", &key.weights}, {"preprocessing", &key.preprocessing},
      {"options", &key.options}};
  for (const auto& [part, own] : parts)
    if (text_of(json, part) != *own) {
      result.stale = part;
      return result;
    }
  result.recipe.error = real_of(entry(json, "error"));
  read_values(entry(json, "values"), graph, result.recipe);
  read_factors(entry(json, "factors"), graph, result.recipe);
  read_anchors(entry(json, "anchors"), graph, result.recipe);
  if (json.contains("evidence")) try {
      result.recipe.evidence = plan::evidence_of(json["evidence"]);
    } catch (const Json::exception& fault) {
      damaged(fault.what());
    }
  const Json& kept = entry(json, "kept");
  if (!kept.is_object()) damaged("\"kept\" is no object");
  for (const auto& [name, reason] : kept.items())
    if (reason.is_string()) result.recipe.kept[name] = reason.get<std::string>();
  return result;
}

}  // namespace tenon::quant
