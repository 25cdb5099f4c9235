// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

namespace tenon::ops {

/// RotaryEmbedding by sizes: rows of `size` numbers, one for each of a batch, head and place in the sequence, of which
/// the first 2 * half are turned in pairs.
struct Rotary {
  int64_t batch, heads, sequence, size, half;
  int64_t head_step, row_step;  // from a head, and from a place in the sequence, to the next
  bool interleaved;             // neighbours are pairs; else a number and the one `half` behind it
  int64_t rows() const { return batch * heads * sequence; }
  /// Where a row begins; rows of one place in the sequence are neighbours.
  int64_t begin(int64_t row) const {
    const int64_t place = row / heads;
    return place / sequence * heads * sequence * size + row % heads * head_step + place % sequence * row_step;
  }
};

/// Of a dense input of these sizes, [batch, heads, sequence, size] or [batch, sequence, heads * size]. Sizes below 0
/// where the node does not fit.
inline Rotary rotary_of(const ir::Node& node, const Dims& x) {
  const int64_t given = node.integer("num_heads", 0), turned = node.integer("rotary_embedding_dim", 0);
  Rotary rotary{-1, -1, -1, -1, -1, 0, 0, node.integer("interleaved", 0) != 0};
  if (x.rank() == 4) rotary = {x[0], x[1], x[2], x[3], 0, x[2] * x[3], x[3], rotary.interleaved};
  else if (x.rank() == 3 && given > 0 && x[2] % given == 0)
    rotary = {x[0], given, x[1], x[2] / given, 0, x[2] / given, x[2], rotary.interleaved};
  const int64_t numbers = turned > 0 ? turned : rotary.size;
  rotary.half = numbers % 2 || numbers > rotary.size ? -1 : numbers / 2;
  return rotary;
}

}  // namespace tenon::ops
