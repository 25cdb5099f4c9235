// SPDX-License-Identifier: Apache-2.0
#include <tenon/dtype.h>

#include <array>

namespace tenon {
namespace {
struct Entry {
  DType type;
  std::string_view name;
  size_t size;
};
constexpr std::array<Entry, 22> entries{{
    {DType::undefined, "undefined", 0}, {DType::f32, "f32", 4},   {DType::u8, "u8", 1},
    {DType::i8, "i8", 1},               {DType::u16, "u16", 2},   {DType::i16, "i16", 2},
    {DType::i32, "i32", 4},             {DType::i64, "i64", 8},   {DType::string, "string", 0},
    {DType::boolean, "bool", 1},        {DType::f16, "f16", 2},   {DType::f64, "f64", 8},
    {DType::u32, "u32", 4},             {DType::u64, "u64", 8},   {DType::bf16, "bf16", 2},
    {DType::f8e4m3fn, "f8e4m3fn", 1},   {DType::f8e4m3fnuz, "f8e4m3fnuz", 1}, {DType::f8e5m2, "f8e5m2", 1},
    {DType::f8e5m2fnuz, "f8e5m2fnuz", 1}, {DType::u4, "u4", 0},   {DType::i4, "i4", 0},
    {DType::sequence, "sequence", 0},
}};
}  // namespace

std::string_view name(DType type) {
  for (const Entry& entry : entries)
    if (entry.type == type) return entry.name;
  return "undefined";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const Entry& entry : entries)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}

size_t size_of(DType type) {
  for (const Entry& entry : entries)
    if (entry.type == type) return entry.size;
  return 0;
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::f64 || type == DType::bf16;
}

bool is_integer(DType type) {
  switch (type) {
    case DType::u8: case DType::i8: case DType::u16: case DType::i16: case DType::i32: case DType::i64: case DType::u32:
    case DType::u64: case DType::u4: case DType::i4: return true;
    default: return false;
  }
}

}  // namespace tenon
