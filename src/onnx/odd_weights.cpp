// SPDX-License-Identifier: Apache-2.0
#include "onnx/odd_weights.h"

#include <cstdint>

#include "base/pages.h"

namespace tenon::onnx {
namespace {

constexpr size_t named = 3;

/// Elements whose exponent is all ones: NaN or infinite.
template <class T>
int64_t count(const Tensor& tensor, T exponent) {
  const T* data = tensor.data<T>();
  int64_t odd = 0;
  for (int64_t at = 0, elements = tensor.elements(); at < elements; ++at) odd += (data[at] & exponent) == exponent;
  return odd;
}

int64_t odd_elements(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32: return count<uint32_t>(tensor, 0x7f800000u);
    case DType::f64: return count<uint64_t>(tensor, 0x7ff0000000000000u);
    case DType::f16: return count<uint16_t>(tensor, 0x7c00);
    case DType::bf16: return count<uint16_t>(tensor, 0x7f80);
    default: return 0;
  }
}

}  // namespace

std::string odd_weights(const ir::Graph& graph) {
  std::string list;
  size_t tensors = 0;
  for (const ir::Value& value : graph.values) {
    // A single number is a bound or a mask, where infinity is meant.
    if (!value.is_constant() || value.dtype == DType::sequence || value.dtype == DType::string ||
        value.constant.elements() < 2)
      continue;
    const int64_t odd = odd_elements(value.constant);
    release_pages(value.constant.data(), value.constant.bytes());
    if (odd == 0 || ++tensors > named) continue;
    list += (list.empty() ? "" : ", ") +
            ("'" + value.name + "' (" + std::to_string(odd) + " of " + std::to_string(value.constant.elements()) + ")");
  }
  if (tensors == 0) return "";
  return "weights hold NaN or infinite numbers: " + list +
         (tensors > named ? " and " + std::to_string(tensors - named) + " more" : "");
}

}  // namespace tenon::onnx
