// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "onnx/external.h"
#include "onnx/model.h"
#include "tenon/tensor.h"

namespace tenon::onnx {

/// Where a tensor's bytes may come from, and what to call the file in messages.
struct Source {
  std::string file;
  std::shared_ptr<const void> keep;  // keeps the file's bytes alive; null makes every tensor a copy
  std::shared_ptr<ExternalData> external;
};

/// The name of an ONNX element type that Tenon has none for; null for every other number.
const char* unsupported_type(int64_t type);
/// The ONNX element type as ours. Throws Error(unsupported) naming `tensor` for one Tenon has no name for.
DType element_type(int64_t type, const std::string& tensor);
/// Makes a tensor of the message. Elements in raw data that lie aligned are referred to, others are copied.
/// Throws Error(invalid_model) naming tensor, expected and got; nothing is allocated before the sizes agree.
Tensor decode(const TensorProto& proto, const Source& source);
/// A sparse tensor, made dense.
Tensor decode(const SparseProto& sparse, const Source& source);

}  // namespace tenon::onnx
