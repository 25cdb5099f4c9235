// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// Corners in order, and the area between them.
struct Box {
  float top, left, bottom, right, area;
};

/// Boxes that were kept, in bins by where they begin along an axis. Those of a bin lie side by side; behind the last,
/// up to whole vectors, areas are 0.
struct KeptBoxes {
  struct Bin {
    int64_t begin, end;
    float reach;  // where the last of them ends
  };
  float *top, *left, *bottom, *right, *area;
  Bin* bins;
};

struct NmsOps {
  /// Whether a box of bins [first, last] covers more than `limit`, at least 0, of their union with this one, which
  /// begins at `start` along the axis, in bin `own`.
  bool (*covered)(const KeptBoxes& kept, int64_t first, int64_t own, int64_t last, const Box& box, float start,
                  float limit);
};

constexpr int64_t nms_lanes = 16;  // whole vectors of any instruction set

const NmsOps& nms_ops(Isa isa);
namespace portable {
extern const NmsOps nms_table;
}
namespace avx2 {
extern const NmsOps nms_table;
}
namespace avx512 {
extern const NmsOps nms_table;
}

}  // namespace tenon::cpu
