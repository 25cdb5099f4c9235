// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "backends/problem.h"
#include "ops/op.h"

/// What kernels share that move pieces of data by indices.
namespace tenon::cpu {

/// Indices of a node into axes of its data, of i64 or i32, counted from the end where they are negative.
class Indices {
 public:
  Indices(const ir::Node& node, DType dtype) : node_(node), wide_(dtype == DType::i64) {}
  /// The index there, in [0, size). Fails the node where it is outside.
  int64_t at(const std::byte* indices, int64_t place, int64_t size) const {
    const int64_t index = number(indices, place);
    if (index < -size || index >= size) fail(index, size);
    return index < 0 ? index + size : index;
  }
  /// The same, or nothing where it is outside.
  std::optional<int64_t> find(const std::byte* indices, int64_t place, int64_t size) const {
    const int64_t index = number(indices, place);
    if (index < -size || index >= size) return std::nullopt;
    return index < 0 ? index + size : index;
  }

 private:
  int64_t number(const std::byte* indices, int64_t place) const {
    return wide_ ? reinterpret_cast<const int64_t*>(indices)[place] : reinterpret_cast<const int32_t*>(indices)[place];
  }
  [[noreturn]] void fail(int64_t index, int64_t size) const {
    ops::fail_at(node_, "index " + std::to_string(index) + " is outside an axis of size " + std::to_string(size));
  }

  ir::Node node_;
  bool wide_;
};

/// Copies pieces of so many bytes, [begin, end) of the target, each from the piece of the source that `place` says.
template <class Place>
void copy_pieces(std::byte* to, const std::byte* from, int64_t bytes, int64_t begin, int64_t end, Place place) {
  const auto copy = [&](auto size) {
    for (int64_t piece = begin; piece < end; ++piece)
      std::memcpy(to + piece * size, from + place(piece) * size, static_cast<size_t>(size));
  };
  switch (bytes) {
    case 4: return copy(std::integral_constant<int64_t, 4>());
    case 8: return copy(std::integral_constant<int64_t, 8>());
    case 16: return copy(std::integral_constant<int64_t, 16>());
    default: return copy(bytes);
  }
}

}  // namespace tenon::cpu
