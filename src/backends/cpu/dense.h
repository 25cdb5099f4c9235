// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "backends/kernel.h"

namespace tenon::cpu {

/// The same problem with all operands dense.
backends::Problem densified(const backends::Problem& problem);
/// Runs `inner`, made for the densified problem, on dense copies of the operands that are views.
std::unique_ptr<backends::Step> with_dense_copies(const backends::Problem& problem,
                                                  std::unique_ptr<backends::Step> inner);

using Refuses = backends::Reason (*)(const backends::Problem&);
using Make = std::unique_ptr<backends::Step> (*)(const backends::Problem&);

/// A kernel for dense operands as one for any.
template <Refuses refuses>
backends::Reason refuses_any(const backends::Problem& problem) {
  return refuses(densified(problem));
}
template <Make make>
std::unique_ptr<backends::Step> make_any(const backends::Problem& problem) {
  return with_dense_copies(problem, make(densified(problem)));
}

}  // namespace tenon::cpu
