// SPDX-License-Identifier: Apache-2.0
#include "explain/report.h"

namespace tenon::explain {
namespace {

using Json = nlohmann::ordered_json;

Json time(double microseconds) { return microseconds < 0 ? Json() : Json(microseconds); }

Json json_of(const Candidate& candidate) {
  if (!candidate.refusal) return {{"kernel", candidate.kernel}, {"us", time(candidate.microseconds)}};
  Json values = Json::array();
  for (size_t at = 0; at < candidate.refusal.count(); ++at) {
    const backends::ReasonValue& value = candidate.refusal.values[at];
    values.push_back(value.word ? Json(value.word) : Json(value.number));
  }
  return {{"kernel", candidate.kernel},
          {"refused", candidate.refusal.text()},
          {"code", backends::name(candidate.refusal.code)},
          {"values", values}};
}

Json json_of(const Report& report, const Row& row) {
  Json candidates = Json::array();
  for (const Candidate& candidate : row.candidates)
    candidates.push_back(json_of(candidate));
  Json json{{"name", row.name},
            {"origins", row.origins},
            {"op", row.op},
            {"sizes", row.sizes},
            {"precision", row.arithmetic},
            {"kernel", row.kernel},
            {"us", time(row.microseconds)},
            {"us_alone", time(row.alone)},
            {"share", report.share(row)},
            {"candidates", candidates}};
  if (row.floor.microseconds >= 0) {
    json["floor_us"] = row.floor.microseconds;
    json["floor_of"] = row.floor.by_products ? "products" : "bytes";
    json["bytes"] = row.work.bytes;
    json["products"] = row.work.products;
  }
  if (!row.inside.empty()) json["rounds"] = time(row.rounds);
  if (!row.kept.empty()) json["kept"] = row.kept;
  if (row.error >= 0) json["int8_error"] = row.error;
  if (row.switched >= 0) json[row.precision == Precision::int8 ? "us_float" : "us_int8"] = row.switched;
  return json;
}

}  // namespace

nlohmann::ordered_json json(const Report& report) {
  Json findings = Json::array(), rows = Json::array(), nodes = Json::array();
  for (const Finding& finding : report.findings)
    findings.push_back(
        {{"us", finding.microseconds}, {"what", finding.what}, {"why", finding.why}, {"do", finding.todo}});
  for (const Row& row : report.rows) rows.push_back(json_of(report, row));
  for (const Fate& node : report.nodes) {
    Json entry{{"name", node.name}, {"op", node.op}, {"steps", node.rows}};
    if (!node.says.empty()) entry["says"] = node.says;
    nodes.push_back(std::move(entry));
  }
  Json all{{"device", report.device.str()},
           {"precision", name(report.precision)},
           {"isa", report.isa},
           {"threads", report.threads},
           {"measured", report.measured},
           {"us", report.microseconds},
           {"findings", findings},
           {"steps", rows},
           {"nodes", nodes},
           {"notes", report.notes}};
  if (const Runs& runs = report.runs; runs.count > 0)
    all["runs"] = {{"count", runs.count}, {"us", runs.middle}, {"low", runs.low}, {"high", runs.high}};
  if (report.limits) {
    const backends::Limits& limits = *report.limits;
    all["limits"] = {{"memory_gb_s", limits.memory / 1e3},
                     {"cache_gb_s", limits.cache / 1e3},
                     {"cache_bytes", limits.cache_bytes},
                     {"g_multiply_adds_s", limits.products / 1e3},
                     {"step_us", limits.step}};
    all["far_from_the_floor"] = Json::array();
    for (const size_t at : report.far) {
      const Row& row = report.rows[at];
      Json refused = Json::array();
      for (const Candidate& candidate : row.candidates)
        if (candidate.refusal) refused.push_back(json_of(candidate));
      all["far_from_the_floor"].push_back({{"name", row.name},
                                           {"step", at},
                                           {"kernel", row.kernel},
                                           {"us", row.microseconds},
                                           {"floor_us", row.floor.microseconds},
                                           {"times", row.microseconds / row.floor.microseconds},
                                           {"share", report.share(row)},
                                           {"refused", refused}});
    }
  }
  if (!report.evidence.search.points.empty()) all["search"] = plan::json_of(report.evidence.search);
  return all;
}

}  // namespace tenon::explain
