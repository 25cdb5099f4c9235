// SPDX-License-Identifier: Apache-2.0
#include "plan/evidence.h"

#include <nlohmann/json.hpp>

namespace tenon::plan {
namespace {
using nlohmann::json;
}

int64_t Evidence::enough(double tolerance) const {
  int64_t count = 0;
  for (size_t at = coverage.size(); at-- > 0;) {
    if (coverage[at].change > tolerance) break;
    count = coverage[at].samples;
  }
  return coverage.size() < 2 ? 0 : count;
}

json json_of(const Search& search) {
  json points = json::array();
  for (const SearchPoint& point : search.points)
    points.push_back({{"ms", point.milliseconds > 0 ? json(point.milliseconds) : json()},
                      {"value", point.value},
                      {"drop", point.drop},
                      {"interval", {point.low, point.high}},
                      {"int8_layers", point.integer},
                      {"float_layers", point.floats},
                      {"rest", point.rest},
                      {"objection", point.objection},
                      {"chosen", point.chosen}});
  return {{"metric", search.metric},
          {"samples", search.samples},
          {"max_drop", search.limit},
          {"limit_reason", search.reason},
          {"jitter", search.jitter},
          {"harmless_change", search.change},
          {"points", std::move(points)},
          {"why", search.why}};
}

namespace {
Search search_of(const json& json) {
  Search search{json.at("metric").get<std::string>(), json.at("samples").get<int64_t>(),
                json.at("max_drop").get<double>(), {}, json.at("why").get<std::string>(),
                json.value("limit_reason", ""), json.value("jitter", 0.), json.value("harmless_change", "")};
  for (const auto& entry : json.at("points"))
    search.points.push_back({entry.at("ms").is_null() ? 0 : entry.at("ms").get<double>(),
                             entry.at("value").get<double>(), entry.at("drop").get<double>(),
                             entry.at("interval").at(0).get<double>(), entry.at("interval").at(1).get<double>(),
                             entry.at("int8_layers").get<int64_t>(),
                             entry.at("float_layers").get<std::vector<std::string>>(),
                             entry.at("chosen").get<bool>(), entry.at("rest").get<std::string>(),
                             entry.value("objection", "")});
  return search;
}
}  // namespace

json json_of(const Evidence& evidence) {
  json layers = json::array(), tensors = json::array(), coverage = json::array(), suspicions = json::array();
  for (const LayerEvidence& layer : evidence.layers)
    layers.push_back(
        {{"node", layer.node}, {"integer", layer.integer}, {"reason", layer.reason}, {"error", layer.error}});
  for (const TensorEvidence& tensor : evidence.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"low", tensor.low},
                       {"high", tensor.high},
                       {"low_from", tensor.low_from},
                       {"high_from", tensor.high_from},
                       {"scale", tensor.scale},
                       {"zero", tensor.zero},
                       {"saturated", tensor.saturated},
                       {"channels", tensor.channels},
                       {"dead", tensor.dead}});
  for (const Coverage& point : evidence.coverage)
    coverage.push_back({{"samples", point.samples}, {"change", point.change}});
  for (const Suspicion& suspicion : evidence.suspicions)
    suspicions.push_back({{"what", suspicion.what}, {"why", suspicion.why}, {"do", suspicion.todo}});
  json all{{"samples", evidence.samples},   {"error", evidence.error},         {"layers", std::move(layers)},
           {"tensors", std::move(tensors)}, {"coverage", std::move(coverage)}, {"suspicions", std::move(suspicions)}};
  if (!evidence.search.points.empty()) all["search"] = json_of(evidence.search);
  return all;
}

Evidence evidence_of(const json& json) {
  Evidence evidence;
  evidence.samples = json.at("samples").get<int64_t>();
  evidence.error = json.at("error").get<double>();
  for (const auto& entry : json.at("layers"))
    evidence.layers.push_back({entry.at("node").get<std::string>(), entry.at("integer").get<bool>(),
                               entry.at("reason").get<std::string>(), entry.at("error").get<double>()});
  for (const auto& entry : json.at("tensors"))
    evidence.tensors.push_back({entry.at("name").get<std::string>(), entry.at("low").get<double>(),
                                entry.at("high").get<double>(), entry.at("low_from").get<std::string>(),
                                entry.at("high_from").get<std::string>(), entry.at("scale").get<double>(),
                                entry.at("zero").get<int>(), entry.at("saturated").get<double>(),
                                entry.at("channels").get<int64_t>(), entry.at("dead").get<int64_t>()});
  for (const auto& entry : json.at("coverage"))
    evidence.coverage.push_back({entry.at("samples").get<int64_t>(), entry.at("change").get<double>()});
  for (const auto& entry : json.at("suspicions"))
    evidence.suspicions.push_back(
        {entry.at("what").get<std::string>(), entry.at("why").get<std::string>(), entry.at("do").get<std::string>()});
  if (json.contains("search")) evidence.search = search_of(json["search"]);
  return evidence;
}

}  // namespace tenon::plan
