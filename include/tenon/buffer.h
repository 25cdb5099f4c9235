// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace tenon {

/// Bytes with their owner: copies refer to the same bytes, which live as long as one of them does.
class TENON_API Buffer {
 public:
  /// What an engine's bytes are aligned to where Tenon allocates them; others are copied once when an engine is loaded.
  static constexpr size_t alignment = 64;
  Buffer() = default;
  /// Memory of the caller, held alive by `keep`.
  Buffer(const void* data, size_t size, std::shared_ptr<const void> keep)
      : data_(static_cast<const std::byte*>(data)), size_(size), keep_(std::move(keep)) {}
  /// A copy of its own, aligned. Throws Error(resource).
  static Buffer copy(std::span<const std::byte> bytes);
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::shared_ptr<const void>& keep() const { return keep_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> keep_;
};

}  // namespace tenon
