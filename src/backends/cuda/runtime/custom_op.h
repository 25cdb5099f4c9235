// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/custom_op.h>

namespace tenon::cuda {

/// Lets a plugin's op run on a GPU, where it can. The op lives as long as the process.
void add_custom_op(const tenon_custom_op& op);

}  // namespace tenon::cuda
