#pragma once
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
class Dims {
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

/// A dense row-major array, shared by value: copies refer to the same elements.
/// 4-bit types hold one element per byte. Strings and sequences hold objects instead of bytes.
class Tensor {
 public:
  Tensor() = default;
  /// Allocates, 64-byte aligned, zeroed. Throws Error(resource) when memory is short.
  Tensor(DType type, const Dims& dims);
  /// Refers to memory of the caller; `keep` holds it alive where needed.
  static Tensor view(DType type, const Dims& dims, void* data, std::shared_ptr<const void> keep = nullptr);
  static Tensor of_strings(const Dims& dims, std::vector<std::string> strings);
  static Tensor of_sequence(std::vector<Tensor> items);
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
  size_t bytes() const;
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
  /// The same elements under other sizes of equal product.
  Tensor reshaped(const Dims& dims) const;
  Tensor copy() const;

 private:
  DType dtype_ = DType::undefined;
  Dims dims_;
  void* data_ = nullptr;
  std::shared_ptr<const void> keep_;
  std::shared_ptr<std::vector<std::string>> strings_;
  std::shared_ptr<std::vector<Tensor>> sequence_;
};

}  // namespace tenon
