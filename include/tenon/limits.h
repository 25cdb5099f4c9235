#pragma once
#include <cstdint>

namespace tenon {

/// What a model may take, for the whole process. Beyond them work ends with Error(resource).
struct Limits {
  /// Bytes of tensors and arenas held together, weights that are mapped from a file not counted; 0: 80 % of what was
  /// free at the first use.
  int64_t memory_bytes = 0;
  /// Rounds of one Loop or Scan, those of loops inside it counted along.
  int64_t loop_rounds = 1'000'000;
};

/// The limits in force.
Limits limits();
/// Throws Error(usage) for a negative size or no rounds.
void set_limits(const Limits& limits);

}  // namespace tenon
