// SPDX-License-Identifier: Apache-2.0
// Where kernels keep their packed weights.
#pragma once

#include <cstddef>
#include <memory>

namespace tenon::cpu {

// Zero-filled bytes on a 64-byte boundary, so that no vector of weights lies in two lines. Many lie side by side in one
// stretch of memory, which the system is asked to keep in large pages: each is read once a run, page after page.
class PackedBytes {
 public:
  PackedBytes() = default;
  explicit PackedBytes(size_t size);
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<std::byte> stretch_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tenon::cpu
