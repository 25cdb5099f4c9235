// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

/// Element types; the values are those of ONNX's TensorProto.DataType.
enum class DType : uint8_t {
  undefined = 0, f32 = 1, u8 = 2, i8 = 3, u16 = 4, i16 = 5, i32 = 6, i64 = 7, string = 8, boolean = 9, f16 = 10,
  f64 = 11, u32 = 12, u64 = 13, bf16 = 16, f8e4m3fn = 17, f8e4m3fnuz = 18, f8e5m2 = 19, f8e5m2fnuz = 20, u4 = 21,
  i4 = 22,
  sequence = 255,  ///< a list of tensors (ONNX sequence types)
};

/// Short name: "f32", "i64", "bool".
TENON_API std::string_view name(DType type);
TENON_API std::optional<DType> dtype_named(std::string_view name);
/// Bytes of one element; 0 for string, sequence and the 4-bit types, which are held unpacked (see Tensor).
TENON_API size_t size_of(DType type);
TENON_API bool is_float(DType type);
TENON_API bool is_integer(DType type);

}  // namespace tenon
