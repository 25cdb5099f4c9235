// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_key.h"

#include <algorithm>
#include <set>

#include "backends/sources.h"
#include "base/hash.h"

namespace tenon::plan {
namespace {

uint64_t hash_of(const std::string& text) { return hash64(std::as_bytes(std::span(text))); }

Record record_or_none(std::vector<Candidate> timed) { return timed.empty() ? Record() : record_of(std::move(timed)); }

}  // namespace

std::vector<Candidate> timed_of(const Record& record) {
  if (record.kernel.empty()) return {};
  std::vector<Candidate> timed{{record.kernel, record.microseconds, record.source}};
  timed.insert(timed.end(), record.candidates.begin(), record.candidates.end());
  return timed;
}

Record current(const Record& record, const Sources& sources) {
  std::vector<Candidate> timed = timed_of(record);
  std::erase_if(timed, [&](const Candidate& candidate) {
    const auto source = sources.find(candidate.kernel);
    return source == sources.end() || candidate.source == 0 || candidate.source != source->second;
  });
  return record_or_none(std::move(timed));
}

Record joined(const Record& older, const Record& newer) {
  std::vector<Candidate> timed = timed_of(newer);
  std::set<std::string> names;
  for (const Candidate& candidate : timed) names.insert(candidate.kernel);
  for (Candidate& candidate : timed_of(older))
    if (names.insert(candidate.kernel).second) timed.push_back(std::move(candidate));
  return record_or_none(std::move(timed));
}

Sources missing(const Sources& candidates, const Record& known) {
  Sources rest = candidates;
  for (const Candidate& candidate : timed_of(known)) rest.erase(candidate.kernel);
  return rest;
}

uint64_t source_of(const std::vector<std::string>& keys, const Records& records) {
  std::string all;
  for (const std::string& key : keys) {
    all += key + '\n';
    const auto record = records.find(key);
    if (record == records.end()) continue;
    std::vector<Candidate> timed = timed_of(record->second);
    std::sort(timed.begin(), timed.end(), [](const Candidate& a, const Candidate& b) { return a.kernel < b.kernel; });
    for (const Candidate& candidate : timed) all += candidate.kernel + ' ' + std::to_string(candidate.source) + '\n';
  }
  return hash_of(all);
}

uint64_t source_of(const backends::Kernel& kernel) { return backends::source_hash(kernel.file, kernel.family); }

}  // namespace tenon::plan
