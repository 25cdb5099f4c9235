// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <string>

#include "ops/op.h"

/// The internal attribute layout="NHWC": activations are N, spatial…, C. Kernels work on N, C, spatial… and convert at
/// their ends.
namespace tenon::ops {

inline AttributeDefs layout_attribute() { return {attr::text("layout").one_of({"NCHW", "NHWC"}).internal()}; }

template <class Context>
bool channels_last(Context& ctx) {
  const std::string layout = ctx.node().text("layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") ctx.fail("layout is \"" + layout + "\"");
  return layout == "NHWC";
}

/// Moves axis 1 to the end (to_last) or the last axis to place 1, in a list of sizes.
template <class List>
List move_channel(const List& sizes, bool to_last) {
  List moved = sizes;
  const size_t rank = sizes.size();
  if (rank < 3) return moved;
  for (size_t axis = 1; axis < rank; ++axis) moved[axis] = sizes[axis];
  if (to_last) {
    for (size_t axis = 2; axis < rank; ++axis) moved[axis - 1] = sizes[axis];
    moved[rank - 1] = sizes[1];
  } else {
    for (size_t axis = 1; axis + 1 < rank; ++axis) moved[axis + 1] = sizes[axis];
    moved[1] = sizes[rank - 1];
  }
  return moved;
}

/// The same elements with the channel axis moved: a copy, or the tensor itself where `convert` is false. Not for
/// strings.
inline Tensor move_channel(const Tensor& from, bool convert, bool to_last) {
  if (!convert || from.dims().rank() < 3) return from;
  const Dims dims = move_channel(from.dims(), to_last);
  Tensor to(from.dtype(), dims);
  const int64_t batch = dims[0], channels = to_last ? dims.back() : dims[1];
  const int64_t elements = from.elements();
  if (elements == 0 || from.bytes() == 0) return to;  // no elements of bytes: texts, which no op here takes
  const int64_t rows = to_last ? channels : elements / batch / channels;
  const int64_t columns = elements / batch / rows;
  const size_t size = from.bytes() / static_cast<size_t>(elements);
  const char* source = from.data<char>();
  char* target = to.data<char>();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        std::memcpy(target + ((n * columns + column) * rows + row) * size,
                    source + ((n * rows + row) * columns + column) * size, size);
  return to;
}

inline Tensor to_channels_first(const Tensor& from, bool convert) { return move_channel(from, convert, false); }
inline Tensor to_channels_last(const Tensor& from, bool convert) { return move_channel(from, convert, true); }

}  // namespace tenon::ops
