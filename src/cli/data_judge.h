// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/judge.h>
#include <tenon/tenon.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cli/calibration.h"

namespace tenon::cli {

/// Judges by labels where `eval` names a file of them, else by the floating point engine's own answers on `data` or on
/// what `eval` names. Throws Error(io) for labels that cannot be read.
std::shared_ptr<Judge> data_judge(const std::string& eval, const DataOptions& data,
                                  const std::vector<TensorInfo>& inputs, const BuildOptions& build);

}  // namespace tenon::cli
