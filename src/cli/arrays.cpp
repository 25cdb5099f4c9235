// SPDX-License-Identifier: Apache-2.0
#include "cli/arrays.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <random>
#include <set>

#include "cli/notes.h"
#include "cli/npy.h"
#include "onnx/import.h"
#include "vision/file.h"

namespace tenon::cli {

namespace {
constexpr int64_t largest_file = int64_t{8} << 30;
constexpr int small_numbers = 2;  // 0 and 1 are good indices and flags for nearly every model

template <class T>
void fill(Tensor& tensor, std::mt19937_64& random) {
  T* data = tensor.data<T>();
  for (int64_t at = 0, count = tensor.elements(); at < count; ++at) {
    if constexpr (std::is_floating_point_v<T>) data[at] = static_cast<T>(random() >> 40) / static_cast<T>(1 << 24);
    else data[at] = static_cast<T>(random() % small_numbers);
  }
}
}  // namespace

Tensor read_array(const std::string& path, DType dtype) {
  if (path.ends_with(".npy")) return parse_npy(vision::read_file(path, largest_file), path);
  if (path.ends_with(".pb")) {
    const auto bytes = vision::read_file(path, largest_file);
    const Tensor value = onnx::read_value(std::as_bytes(std::span(bytes)), path, dtype == DType::sequence);
    // The ONNX suite stores bfloat16 values under the type uint16.
    if (value.dtype() == DType::u16 && dtype == DType::bf16)
      return Tensor::view(dtype, value.dims(), const_cast<void*>(value.data()), std::make_shared<Tensor>(value));
    return value;
  }
  const size_t npz = path.rfind(".npz");
  if (npz != std::string::npos && (npz + 4 == path.size() || path[npz + 4] == ':')) {
    const std::string file = path.substr(0, npz + 4), key = npz + 4 == path.size() ? "" : path.substr(npz + 5);
    return parse_npz(vision::read_file(file, largest_file), key, file);
  }
  throw Error(Code::usage, "this file's name does not say what array it holds",
              {.where = path, .hint = "give a .npy, .npz:KEY or .pb file"});
}

namespace {
template <class From, class To>
Tensor cast(const Tensor& array, DType dtype, const std::string& path) {
  Tensor result(dtype, array.dims());
  const From* from = array.data<From>();
  To* to = result.data<To>();
  for (int64_t at = 0, count = array.elements(); at < count; ++at) {
    to[at] = static_cast<To>(from[at]);
    if constexpr (std::is_integral_v<To>)
      if (static_cast<From>(to[at]) != from[at])
        throw Error(Code::usage, fmt::format("{} does not fit into {}", from[at], name(dtype)), {.where = path});
  }
  static std::set<std::string> told;
  if (told.insert(path).second)
    note(fmt::format("{}: cast from {} to {}, which the input expects", path, name(array.dtype()), name(dtype)));
  return result;
}
}  // namespace

Tensor cast_to_input(const Tensor& array, DType dtype, const std::string& path) {
  if (array.dtype() == DType::f64 && dtype == DType::f32) return cast<double, float>(array, dtype, path);
  if (array.dtype() == DType::i64 && dtype == DType::i32) return cast<int64_t, int32_t>(array, dtype, path);
  if (array.dtype() == DType::i32 && dtype == DType::i64) return cast<int32_t, int64_t>(array, dtype, path);
  return array;
}

Tensor random_array(DType dtype, const Dims& dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor tensor(dtype, dims);
  switch (dtype) {
    case DType::f32: fill<float>(tensor, random); break;
    case DType::f64: fill<double>(tensor, random); break;
    case DType::u8:
    case DType::i8:
    case DType::u4:
    case DType::i4:
    case DType::boolean: fill<uint8_t>(tensor, random); break;
    case DType::u16:
    case DType::i16: fill<uint16_t>(tensor, random); break;
    case DType::i32:
    case DType::u32: fill<uint32_t>(tensor, random); break;
    case DType::i64:
    case DType::u64: fill<uint64_t>(tensor, random); break;
    case DType::f16:
    case DType::bf16: break;  // zeros are as good as any for timing
    default: throw Error(Code::unsupported, "no random values for inputs of type " + std::string(name(dtype)));
  }
  return tensor;
}

std::string file_name_of(const std::string& tensor_name) {
  std::string file = tensor_name;
  for (char& c : file)
    if (c == '/' || c == ':' || c == '\0') c = '_';
  if (file == "." || file == "..") file = "_";
  return file + ".npy";
}

}  // namespace tenon::cli
