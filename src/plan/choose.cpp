#include <algorithm>

#include "base/check.h"
#include "plan/plan.h"

namespace tenon::plan {

namespace {

/// The record of the problem; else that of another number of threads, so that an engine gives the same bits with any.
Records::const_iterator record_for(const std::string& signature, const Records& records) {
  if (const auto exact = records.find(signature); exact != records.end()) return exact;
  return std::find_if(records.begin(), records.end(),
                      [&](const auto& record) { return backends::same_but_threads(record.first, signature); });
}

}  // namespace

const backends::Kernel& choose(const backends::Problem& problem, const Records& records) {
  const auto kernels = backends::kernels_for(problem.node->op);
  if (kernels.size() > 1)
    if (const auto record = record_for(backends::signature(problem), records); record != records.end())
      for (const backends::Kernel* kernel : kernels)
        if (kernel->name == record->second.kernel && !kernel->refuses(problem)) return *kernel;
  for (const backends::Kernel* kernel : kernels)
    if (!kernel->refuses(problem)) return *kernel;
  return backends::reference_kernel();
}

const backends::PairKernel* choose(const backends::Pair& pair, const Records& records) {
  const auto record = records.find(backends::signature(pair));
  if (record == records.end()) return nullptr;
  const backends::PairKernel* kernel = backends::pair_kernel(pair);
  return kernel && kernel->name == record->second.kernel ? kernel : nullptr;
}

Records without_pairs(Records records) {
  std::erase_if(records, [](const auto& record) { return record.first.starts_with(backends::pair_prefix); });
  return records;
}

Record record_of(std::vector<Rival> timed) {
  TENON_CHECK(!timed.empty(), "a race without kernels");
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Rival& a, const Rival& b) { return a.microseconds < b.microseconds; });
  Record record{std::move(timed[0].kernel), timed[0].microseconds, {}, timed[0].source};
  record.rivals.assign(std::make_move_iterator(timed.begin() + 1), std::make_move_iterator(timed.end()));
  return record;
}

}  // namespace tenon::plan
