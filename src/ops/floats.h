// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <vector>

#include "ops/dispatch.h"

/// Kernels written for float and double only: 16-bit floats are widened on the way in and rounded on the way out.
namespace tenon::ops {

inline DType wide_type(DType type) { return type == DType::f16 || type == DType::bf16 ? DType::f32 : type; }

/// f16 and bf16 as f32; other tensors as they are.
inline Tensor as_f32(const Tensor& tensor) {
  if (wide_type(tensor.dtype()) == tensor.dtype()) return tensor;
  Tensor wide(DType::f32, tensor.dims());
  const int64_t count = tensor.elements();
  const auto* bits = tensor.data<uint16_t>();
  for (int64_t i = 0; i < count; ++i)
    wide.data<float>()[i] = tensor.dtype() == DType::f16 ? f16_value(bits[i]) : bf16_value(bits[i]);
  return wide;
}

/// Stores a result of type wide_type(type) as an output of `type`.
inline void deliver(Evaluation& ctx, size_t at, DType type, const Tensor& result) {
  Tensor& output = ctx.output(at, type, result.dims());
  const int64_t count = result.elements();
  if (result.dtype() == type) {
    if (result.bytes()) std::memcpy(output.data(), result.data(), result.bytes());
    return;
  }
  auto* bits = output.data<uint16_t>();
  for (int64_t i = 0; i < count; ++i)
    bits[i] = type == DType::f16 ? f16_bits(result.data<float>()[i]) : bf16_bits(result.data<float>()[i]);
}

/// Calls `f` with Type<float> or Type<double> for a floating type; fails the node for any other.
template <class Context, class F>
void with_wide(Context& ctx, DType type, F&& f) {
  dispatch<Types<float, double>>(ctx, wide_type(type), f);
}

/// All elements of a floating tensor as doubles; fails the node for other types.
template <class Context>
std::vector<double> reals(const Context& ctx, const Tensor& tensor) {
  std::vector<double> list(static_cast<size_t>(tensor.elements()));
  dispatch<Floats>(ctx, tensor.dtype(), [&]<class T>(Type<T>) {
    for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<Wide<T>>(tensor.data<T>()[i]);
  });
  return list;
}

/// A double rounded once to T.
template <class T>
T rounded(double value) {
  return static_cast<T>(static_cast<Wide<T>>(value));
}

}  // namespace tenon::ops
