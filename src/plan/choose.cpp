#include "plan/plan.h"

namespace tenon::plan {

const backends::Kernel& choose(const backends::Problem& problem, const Records& records) {
  const auto kernels = backends::kernels_for(problem.node->op);
  if (kernels.size() > 1)
    if (const auto record = records.find(backends::signature(problem)); record != records.end())
      for (const backends::Kernel* kernel : kernels)
        if (kernel->name == record->second.kernel && !kernel->refuses(problem)) return *kernel;
  for (const backends::Kernel* kernel : kernels)
    if (!kernel->refuses(problem)) return *kernel;
  return backends::reference_kernel();
}

}  // namespace tenon::plan
