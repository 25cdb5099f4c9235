// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstdint>

namespace tenon {

/// What models may take: of the whole process by set_limits, of one engine by BuildOptions and LoadOptions. Both hold.
/// Beyond them work ends with Error(resource).
struct Limits {
  /// Bytes of tensors and arenas held together, weights that are mapped from a file not counted. 0: for the process
  /// 80 % of what was free at the first use, for an engine no limit of its own. Where it is given, also of the memory
  /// of GPUs: arenas, inputs, weights and workspaces.
  int64_t memory_bytes = 0;
  /// Rounds of one Loop or Scan, those of loops inside it counted along.
  int64_t loop_rounds = 1'000'000;
  /// Bytes that a kernel on a GPU may take beside its operands; kernels that take more are passed over. 0: no limit.
  int64_t workspace_bytes = 0;
};

/// The limits of the process.
TENON_API Limits limits();
/// Throws Error(usage) for negative sizes or no rounds.
TENON_API void set_limits(const Limits& limits);

}  // namespace tenon
