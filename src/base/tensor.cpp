// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/tensor.h>

#include <cstring>
#include <new>

#include "base/check.h"
#include "base/checked.h"
#include "base/memory.h"
#include "tenon/limits.h"

namespace tenon {

Dims::Dims(std::span<const int64_t> sizes) {
  if (sizes.size() > max_rank)
    throw Error(Code::unsupported, "a tensor of rank " + std::to_string(sizes.size()) + " is above the limit of 8");
  for (int64_t size : sizes) sizes_[rank_++] = size;
}

void Dims::push_back(int64_t size) { insert(rank_, size); }

void Dims::insert(size_t axis, int64_t size) {
  if (rank_ == max_rank) throw Error(Code::unsupported, "a tensor of rank 9 is above the limit of 8");
  for (size_t at = rank_; at > axis; --at) sizes_[at] = sizes_[at - 1];
  sizes_[axis] = size;
  ++rank_;
}

void Dims::erase(size_t axis) {
  for (size_t at = axis; at + 1 < rank_; ++at) sizes_[at] = sizes_[at + 1];
  --rank_;
}

int64_t Dims::elements() const {
  int64_t product = 1;
  for (int64_t size : *this)
    if (size == 0) return 0;
  for (int64_t size : *this) product = checked_mul(product, size, "tensor size");
  return product;
}

bool Dims::operator==(const Dims& other) const {
  if (rank_ != other.rank_) return false;
  for (size_t at = 0; at < rank_; ++at)
    if (sizes_[at] != other.sizes_[at]) return false;
  return true;
}

std::string Dims::str() const {
  if (rank_ == 0) return "scalar";
  std::string text;
  for (size_t at = 0; at < rank_; ++at) text += (at ? "x" : "") + std::to_string(sizes_[at]);
  return text;
}

namespace {
int64_t bytes_of(DType type, const Dims& dims) {
  const int64_t element = type == DType::u4 || type == DType::i4 ? 1 : static_cast<int64_t>(size_of(type));
  return checked_mul(dims.elements(), element, "tensor size");
}
}  // namespace

namespace {
[[noreturn]] void refuse(DType type, const Dims& dims, int64_t bytes) {
  throw Error(Code::resource, "out of memory for a tensor " + dims.str() + " of " + std::string(name(type)),
              {.why = "it takes " + memory_text(bytes) + ", the limit for all tensors is " +
                      memory_text(limits_in_force().memory_bytes)});
}
}  // namespace

Tensor::Tensor(DType type, const Dims& dims) : dtype_(type), dims_(dims) {
  if (type == DType::string) {
    const int64_t bytes = checked_mul(dims.elements(), sizeof(std::string), "tensor size");
    if (!take_memory(bytes)) refuse(type, dims, bytes);
    strings_ = {new std::vector<std::string>(dims.elements()),
                [bytes, budget = current_budget()](std::vector<std::string>* strings) {
                  delete strings;
                  give_memory_back(bytes, budget.get());
                }};
    return;
  }
  const int64_t bytes = bytes_of(type, dims);
  if (!take_memory(bytes)) refuse(type, dims, bytes);
  const auto size = static_cast<size_t>(bytes);
  void* memory = ::operator new(size ? size : 1, std::align_val_t(64), std::nothrow);
  if (!memory) {
    give_memory_back(bytes, current_budget().get());
    refuse(type, dims, bytes);
  }
  std::memset(memory, 0, size);
  data_ = memory;
  keep_ = std::shared_ptr<const void>(memory, [bytes, budget = current_budget()](const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(64));
    give_memory_back(bytes, budget.get());
  });
}

Tensor Tensor::view(DType type, const Dims& dims, void* data, std::shared_ptr<const void> keep) {
  Tensor tensor;
  tensor.dtype_ = type;
  tensor.dims_ = dims;
  tensor.data_ = data;
  tensor.keep_ = std::move(keep);
  return tensor;
}

/// Of a tensor with strides or on another device.
struct Tensor::Placement {
  Device device;
  Dims strides;
};

namespace {
Dims dense_strides(const Dims& dims) {
  Dims strides = dims;
  uint64_t step = 1;  // wraps around where a size is zero
  for (size_t axis = dims.rank(); axis-- > 0; step *= static_cast<uint64_t>(dims[axis]))
    strides[axis] = static_cast<int64_t>(step);
  return strides;
}

bool are_dense(const Dims& dims, const Dims& strides) {
  if (dims.elements() == 0) return true;
  int64_t step = 1;
  for (size_t axis = dims.rank(); axis-- > 0; step *= dims[axis])
    if (dims[axis] != 1 && strides[axis] != step) return false;
  return true;
}
}  // namespace

Tensor Tensor::view(DType type, const Dims& dims, const Dims& strides, void* data, const Device& device,
                    std::shared_ptr<const void> keep) {
  if (strides.rank() != 0 && strides.rank() != dims.rank())
    throw Error(Code::usage, "a tensor " + dims.str() + " is given " + std::to_string(strides.rank()) + " strides");
  bytes_of(type, dims);
  Tensor tensor = view(type, dims, data, std::move(keep));
  const bool dense = strides.rank() == 0 || are_dense(dims, strides);
  if (dense && device == Device()) return tensor;
  if (bytes_of(type, Dims{1}) == 0)
    throw Error(Code::usage, "a tensor of " + std::string(name(type)) + " has neither strides nor a device");
  tensor.placement_ = std::make_shared<Placement>(Placement{device, dense ? dense_strides(dims) : strides});
  return tensor;
}

Device Tensor::device() const { return placement_ ? placement_->device : Device(); }
bool Tensor::on_cpu() const { return !placement_ || placement_->device.backend == Device().backend; }
bool Tensor::is_unique() const { return keep_.use_count() == 1; }
bool Tensor::is_dense() const { return !placement_ || are_dense(dims_, placement_->strides); }
Dims Tensor::strides() const { return placement_ ? placement_->strides : dense_strides(dims_); }

Tensor Tensor::of_strings(const Dims& dims, std::vector<std::string> strings) {
  TENON_CHECK(static_cast<int64_t>(strings.size()) == dims.elements(), "one string per element");
  Tensor tensor;
  tensor.dtype_ = DType::string;
  tensor.dims_ = dims;
  tensor.strings_ = std::make_shared<std::vector<std::string>>(std::move(strings));
  return tensor;
}

Tensor Tensor::of_sequence(std::vector<Tensor> items) {
  Tensor tensor;
  tensor.dtype_ = DType::sequence;
  tensor.sequence_ = std::make_shared<std::vector<Tensor>>(std::move(items));
  return tensor;
}

size_t Tensor::bytes() const { return dtype_ == DType::undefined ? 0 : static_cast<size_t>(bytes_of(dtype_, dims_)); }

Tensor Tensor::reshaped(const Dims& dims) const {
  if (dims.elements() != elements())
    throw Error(Code::usage, "a tensor " + dims_.str() + " cannot take the shape " + dims.str());
  Tensor tensor = *this;
  tensor.dims_ = dims;
  return tensor;
}

Tensor Tensor::copy() const {
  if (dtype_ == DType::string) return of_strings(dims_, *strings_);
  if (dtype_ == DType::sequence) return of_sequence(*sequence_);
  Tensor tensor(dtype_, dims_);
  copy_to(tensor.data());
  return tensor;
}

void Tensor::copy_to(void* memory) const {
  auto* to = static_cast<std::byte*>(memory);
  if (!on_cpu())
    throw Error(Code::usage, "the elements of a tensor lie on " + device().str(),
                {.why = "they are needed in the memory of the process", .hint = "copy it there"});
  if (bytes() == 0) return;
  if (is_dense()) {
    std::memcpy(to, data_, bytes());
    return;
  }
  const auto size = static_cast<int64_t>(size_of(dtype_));
  const Dims& steps = placement_->strides;
  const size_t rank = dims_.rank();
  const int64_t row = dims_[rank - 1], rows = elements() / row;
  Dims at = dims_;
  for (int64_t& index : at) index = 0;
  const auto* from = static_cast<const std::byte*>(data_);
  for (int64_t done = 0; done < rows; ++done) {
    for (int64_t index = 0; index < row; ++index, to += size)
      std::memcpy(to, from + index * steps[rank - 1] * size, static_cast<size_t>(size));
    for (size_t axis = rank - 1; axis-- > 0;) {
      from += steps[axis] * size;
      if (++at[axis] < dims_[axis]) break;
      from -= steps[axis] * size * at[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace tenon
