// SPDX-License-Identifier: Apache-2.0
#include "base/random_array.h"

#include <tenon/error.h>

#include <random>
#include <string>
#include <type_traits>

namespace tenon {
namespace {

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

}  // namespace tenon
