// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/backend.h"
#include "base/check.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace tenon::plan {

const Record* record_for(const std::string& key, const Records& records) {
  if (const auto exact = records.find(key); exact != records.end()) return &exact->second;
  const auto other = std::find_if(records.begin(), records.end(),
                                  [&](const auto& record) { return backends::same_but_threads(record.first, key); });
  return other == records.end() ? nullptr : &other->second;
}

const Record* record_of(const Plan& plan, const backends::Problem& problem) {
  const backends::Backend& backend = backends::backend(plan.device);
  if (backend.has(plan.device)) return record_for(backend.key(problem, &plan.device), plan.records);
  const std::string end = backend.key(problem, nullptr);
  for (const auto& [key, record] : plan.records)
    if (key.ends_with(end)) return &record;
  return nullptr;
}

const backends::Kernel& choose(const backends::Problem& problem, const Records& records) {
  const Record* record = record_for(backends::signature(problem), records);
  return backends::kernel_for(problem, record ? record->kernel : std::string());
}

Records without_groups(Records records) {
  std::erase_if(records,
                [](const auto& record) { return ops::has_trait(backends::op_of(record.first), ops::Trait::group); });
  return records;
}

void prefer(Record& record, const std::string& kernel) {
  const auto found = std::find_if(record.candidates.begin(), record.candidates.end(),
                                  [&](const Candidate& candidate) { return candidate.kernel == kernel; });
  if (found == record.candidates.end()) return;
  std::swap(record.kernel, found->kernel);
  std::swap(record.microseconds, found->microseconds);
  std::swap(record.source, found->source);
  std::sort(record.candidates.begin(), record.candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
}

Record record_of(std::vector<Candidate> timed) {
  TENON_CHECK(!timed.empty(), "nothing was timed");
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
  Record record{std::move(timed[0].kernel), timed[0].microseconds, {}, timed[0].source};
  record.candidates.assign(std::make_move_iterator(timed.begin() + 1), std::make_move_iterator(timed.end()));
  return record;
}

}  // namespace tenon::plan
