// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "plan/plan.h"

/// Of what a measurement is: a kernel by its name, and the hash of the source it was made from. After an upgrade
/// kernels that changed are timed again, new ones are timed as well, and nothing else is.
namespace tenon::plan {

/// The candidates of a problem as this program has them: names and hashes.
using Sources = std::map<std::string, uint64_t>;

/// All that was timed, the fastest first.
std::vector<Candidate> timed_of(const Record& record);
/// What the record knows of these candidates: other kernels and earlier sources are left out. Without a kernel where
/// nothing remains.
Record current(const Record& record, const Sources& candidates);
/// Both; of a kernel in both the time in `newer`.
Record joined(const Record& older, const Record& newer);
/// The candidates of which the record knows nothing.
Sources missing(const Sources& candidates, const Record& known);
/// One hash of all that the records of these keys know, whatever is the fastest; keys without a record count by their
/// names.
uint64_t source_of(const std::vector<std::string>& keys, const Records& records);
uint64_t source_of(const backends::Kernel& kernel);

}  // namespace tenon::plan
