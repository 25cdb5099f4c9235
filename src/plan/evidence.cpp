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
  return {{"samples", evidence.samples},   {"error", evidence.error},         {"layers", std::move(layers)},
          {"tensors", std::move(tensors)}, {"coverage", std::move(coverage)}, {"suspicions", std::move(suspicions)}};
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
  return evidence;
}

}  // namespace tenon::plan
