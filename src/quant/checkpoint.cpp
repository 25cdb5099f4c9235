// SPDX-License-Identifier: Apache-2.0
#include "quant/checkpoint.h"

#include <tenon/error.h>

#include <nlohmann/json.hpp>

namespace tenon::quant {
namespace {

using Json = nlohmann::json;
constexpr int checkpoint_version = 4;
constexpr const char* mark = "tenon_calibration_so_far";

Json json_of(const CacheKey& key, int64_t batch) {
  return {key.graph, key.weights, key.preprocessing, key.options, batch};
}

}  // namespace

bool is_checkpoint(const std::string& text) { return text.find(mark) < 16; }

std::string write_checkpoint(const CacheKey& key, int64_t batch, const Checkpoint& checkpoint) {
  // The mark comes first by being the only key of the outer object.
  Json json{{"version", checkpoint_version},         {"key", json_of(key, batch)},
            {"samples", checkpoint.samples},         {"gains", checkpoint.audit.gains},
            {"rescaled", checkpoint.audit.rescaled}, {"same_best", checkpoint.audit.same_best}};
  json["groups"] = json["ends"] = json["snapshots"] = Json::array();
  json["channels"] = Json::object();
  for (const Histogram& group : checkpoint.groups) json["groups"].push_back(group.str());
  for (const auto& [name, sums] : checkpoint.channels)
    json["channels"][name] = {sums.positions, sums.sum, sums.squares, sums.low, sums.high};
  for (const Auditor::Ends& ends : checkpoint.audit.ends)
    json["ends"].push_back({ends.low, ends.high, ends.low_from, ends.high_from});
  for (const Auditor::Snapshot& snapshot : checkpoint.audit.snapshots)
    json["snapshots"].push_back({snapshot.samples, snapshot.ranges});
  return Json{{mark, std::move(json)}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Checkpoint read_checkpoint(const std::string& text, const CacheKey& key, int64_t batch, size_t groups) {
  Checkpoint checkpoint;
  if (!is_checkpoint(text)) return checkpoint;
  try {
    const Json json = Json::parse(text).at(mark);
    if (json.at("version") != checkpoint_version || json.at("key") != json_of(key, batch)) return {};
    if (json.at("groups").size() != groups || json.at("ends").size() != groups) return {};
    checkpoint.samples = json.at("samples").get<int64_t>();
    checkpoint.audit.gains = json.at("gains").get<std::vector<double>>();
    checkpoint.audit.rescaled = json.at("rescaled").get<int>();
    checkpoint.audit.same_best = json.at("same_best").get<int>();
    for (const Json& group : json.at("groups")) checkpoint.groups.push_back(Histogram::parse(group.get<std::string>()));
    for (const auto& [name, entry] : json.at("channels").items()) {
      ChannelSums& sums = checkpoint.channels[name];
      sums.positions = entry.at(0).get<int64_t>();
      sums.sum = entry.at(1).get<std::vector<double>>();
      sums.squares = entry.at(2).get<std::vector<double>>();
      sums.low = entry.at(3).get<std::vector<float>>();
      sums.high = entry.at(4).get<std::vector<float>>();
      const size_t count = sums.sum.size();
      if (sums.squares.size() != count || sums.low.size() != count || sums.high.size() != count)
        throw Error(Code::io, "lists of channels differ in length");
    }
    for (const Json& entry : json.at("ends"))
      checkpoint.audit.ends.push_back({entry.at(0).get<float>(), entry.at(1).get<float>(),
                                       entry.at(2).get<std::string>(), entry.at(3).get<std::string>()});
    for (const Json& entry : json.at("snapshots")) {
      checkpoint.audit.snapshots.push_back({entry.at(0).get<int64_t>(), entry.at(1).get<std::vector<double>>()});
      if (checkpoint.audit.snapshots.back().ranges.size() != groups)
        throw Error(Code::io, "a snapshot has another number of tensors");
    }
  } catch (const Json::exception& fault) {
    throw Error(Code::io, "the calibration cache is damaged",
                {.why = fault.what(), .hint = "delete it and calibrate again"});
  } catch (const Error& fault) {
    throw Error(Code::io, "the calibration cache is damaged",
                {.why = fault.what(), .hint = "delete it and calibrate again"});
  }
  return checkpoint;
}

}  // namespace tenon::quant
