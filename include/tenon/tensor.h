// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/device.h>
#include <tenon/dtype.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// Sizes of a tensor, outermost first. At most 8 of them; never allocates.
class TENON_API Dims {
 public:
  static constexpr size_t max_rank = 8;
  Dims() = default;
  Dims(std::initializer_list<int64_t> sizes) : Dims(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  /// Throws Error(unsupported) above max_rank.
  explicit Dims(std::span<const int64_t> sizes);
  size_t rank() const { return rank_; }
  size_t size() const { return rank_; }
  int64_t& operator[](size_t axis) { return sizes_[axis]; }
  int64_t operator[](size_t axis) const { return sizes_[axis]; }
  int64_t* begin() { return sizes_.data(); }
  int64_t* end() { return sizes_.data() + rank_; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  int64_t back() const { return sizes_[rank_ - 1]; }
  void push_back(int64_t size);
  void insert(size_t axis, int64_t size);
  void erase(size_t axis);
  /// Product of all sizes; throws Error(resource) where it leaves int64.
  int64_t elements() const;
  bool operator==(const Dims& other) const;
  /// "1x3x640x640"; "scalar" for rank 0.
  std::string str() const;

 private:
  std::array<int64_t, max_rank> sizes_{};
  uint8_t rank_ = 0;
};

/// An array, shared by value: copies refer to the same elements. Dense and row-major in the memory of the process,
/// unless it was made with strides or with another device; what Tenon gives is dense. 4-bit types hold one element per
/// byte. Strings and sequences hold objects instead of bytes.
class TENON_API Tensor {
 public:
  Tensor() = default;
  /// Allocates, 64-byte aligned, zeroed. Throws Error(resource) when memory is short.
  Tensor(DType type, const Dims& dims);
  /// Refers to memory of the caller; `keep` holds it alive where needed.
  static Tensor view(DType type, const Dims& dims, void* data, std::shared_ptr<const void> keep = nullptr);
  /// The same with memory of a device, and where `strides` has axes, with these steps along them, in elements, which
  /// may be zero or negative. Throws Error(usage) where `strides` has another number of axes than `dims`, or the type
  /// has no elements of whole bytes; Error(resource) where 64 bits cannot count its bytes.
  static Tensor view(DType type, const Dims& dims, const Dims& strides, void* data, const Device& device = {},
                     std::shared_ptr<const void> keep = nullptr);
  static Tensor of_strings(const Dims& dims, std::vector<std::string> strings);
  static Tensor of_sequence(std::vector<Tensor> items);
  /// A copy of as many values as `dims` has elements; a T has the size of the type.
  template <class T>
  static Tensor of(DType type, const Dims& dims, std::span<const T> values) {
    Tensor tensor(type, dims);
    for (size_t at = 0; at < values.size(); ++at) tensor.data<T>()[at] = values[at];
    return tensor;
  }

  explicit operator bool() const { return dtype_ != DType::undefined; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t elements() const { return dims_.elements(); }
  /// Of its elements, without what strides leave between them.
  size_t bytes() const;
  /// Where its elements lie.
  Device device() const;
  bool on_cpu() const;
  /// Whether its elements are held by this tensor alone; false where they are the caller's.
  bool is_unique() const;
  /// Row-major without gaps. Strides along axes of one element do not matter.
  bool is_dense() const;
  /// Steps along the axes, in elements.
  Dims strides() const;
  /// The first element: an address on its device.
  template <class T = void>
  T* data() {
    return static_cast<T*>(data_);
  }
  template <class T = void>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(elements())};
  }
  std::vector<std::string>& strings() { return *strings_; }
  const std::vector<std::string>& strings() const { return *strings_; }
  std::vector<Tensor>& sequence() { return *sequence_; }
  const std::vector<Tensor>& sequence() const { return *sequence_; }
  /// The same elements under other sizes; of a dense tensor. Throws Error(usage) where the products differ.
  Tensor reshaped(const Dims& dims) const;
  /// Dense elements of its own. Throws Error(usage) where they lie on another device.
  Tensor copy() const;
  /// Writes its elements, dense, to memory of bytes() bytes. Throws as copy() does.
  void copy_to(void* memory) const;

 private:
  struct Placement;

  DType dtype_ = DType::undefined;
  Dims dims_;
  void* data_ = nullptr;
  std::shared_ptr<const void> keep_;
  std::shared_ptr<const Placement> placement_;  // null: dense, in the memory of the process
  std::shared_ptr<std::vector<std::string>> strings_;
  std::shared_ptr<std::vector<Tensor>> sequence_;
};

}  // namespace tenon
