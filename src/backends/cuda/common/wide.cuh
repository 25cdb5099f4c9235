// SPDX-License-Identifier: Apache-2.0
// Elements as WIDE, the type that they are counted in, f32 or an integer (WHOLE 1), and back.
#pragma once
template <class V>
__device__ __forceinline__ WIDE wide(V v) {
  if constexpr (WHOLE) return v;
  else return f32_of(v);
}
template <class V>
__device__ __forceinline__ V narrow(WIDE v) {
  if constexpr (WHOLE) return v;
  else return of_f32<V>(v);
}
