// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_key.h"

#include <algorithm>
#include <set>

#include "backends/sources.h"
#include "base/hash.h"

namespace tenon::plan {
namespace {

uint64_t hash_of(const std::string& text) { return hash64(std::as_bytes(std::span(text))); }

Record record_or_none(std::vector<Rival> timed) { return timed.empty() ? Record() : record_of(std::move(timed)); }

}  // namespace

std::vector<Rival> timed_of(const Record& record) {
  if (record.kernel.empty()) return {};
  std::vector<Rival> timed{{record.kernel, record.microseconds, record.source}};
  timed.insert(timed.end(), record.rivals.begin(), record.rivals.end());
  return timed;
}

Record current(const Record& record, const Sources& candidates) {
  std::vector<Rival> timed = timed_of(record);
  std::erase_if(timed, [&](const Rival& rival) {
    const auto candidate = candidates.find(rival.kernel);
    return candidate == candidates.end() || rival.source == 0 || rival.source != candidate->second;
  });
  return record_or_none(std::move(timed));
}

Record joined(const Record& older, const Record& newer) {
  std::vector<Rival> timed = timed_of(newer);
  std::set<std::string> names;
  for (const Rival& rival : timed) names.insert(rival.kernel);
  for (Rival& rival : timed_of(older))
    if (names.insert(rival.kernel).second) timed.push_back(std::move(rival));
  return record_or_none(std::move(timed));
}

Sources missing(const Sources& candidates, const Record& known) {
  Sources rest = candidates;
  for (const Rival& rival : timed_of(known)) rest.erase(rival.kernel);
  return rest;
}

uint64_t source_of(const std::vector<std::string>& keys, const Records& records) {
  std::string all;
  for (const std::string& key : keys) {
    all += key + '\n';
    const auto record = records.find(key);
    if (record == records.end()) continue;
    std::vector<Rival> timed = timed_of(record->second);
    std::sort(timed.begin(), timed.end(), [](const Rival& a, const Rival& b) { return a.kernel < b.kernel; });
    for (const Rival& rival : timed) all += rival.kernel + ' ' + std::to_string(rival.source) + '\n';
  }
  return hash_of(all);
}

uint64_t source_of(const backends::Kernel& kernel) { return backends::source_hash(kernel.file, kernel.family); }

}  // namespace tenon::plan
