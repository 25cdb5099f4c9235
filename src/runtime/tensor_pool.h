// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <memory>

namespace tenon::runtime {

/// Memory of intermediate results that are made one by one: what one gives up, the next takes. It lies apart from the
/// heap, where small blocks that stay would keep the memory of large ones that went.
class TensorPool {
 public:
  TensorPool();
  /// With elements that are not set; it may outlive the pool. Throws Error(resource).
  Tensor tensor(DType type, const Dims& dims);

 private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace tenon::runtime
