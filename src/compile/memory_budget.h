// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/calibrate.h"

namespace tenon::compile {

/// The setting with so small a batch that calibration fits the memory that may still be taken, told to `warn` where it
/// is smaller than asked for. Throws Error(resource) with need and limit where a batch of one does not fit, nor the
/// batch that the model has.
Setting fit_batch(const ir::Graph& graph, Setting setting);

/// About as many bytes as calibration takes for the smallest batch.
int64_t bytes_of_calibration(const ir::Graph& graph, Setting setting);

}  // namespace tenon::compile
