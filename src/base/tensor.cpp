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
  return checked_mul(dims.elements(), element, "tensor bytes");
}
}  // namespace

namespace {
[[noreturn]] void refuse(DType type, const Dims& dims, int64_t bytes) {
  throw Error(Code::resource, "out of memory for a tensor " + dims.str() + " of " + std::string(name(type)),
              {.why = "it takes " + memory_text(bytes) + ", the limit for all tensors is " +
                      memory_text(limits().memory_bytes)});
}
}  // namespace

Tensor::Tensor(DType type, const Dims& dims) : dtype_(type), dims_(dims) {
  if (type == DType::string) {
    const int64_t bytes = checked_mul(dims.elements(), sizeof(std::string), "tensor bytes");
    if (!take_memory(bytes)) refuse(type, dims, bytes);
    strings_ = {new std::vector<std::string>(dims.elements()), [bytes](std::vector<std::string>* strings) {
                  delete strings;
                  give_memory_back(bytes);
                }};
    return;
  }
  const int64_t bytes = bytes_of(type, dims);
  if (!take_memory(bytes)) refuse(type, dims, bytes);
  const auto size = static_cast<size_t>(bytes);
  void* memory = ::operator new(size ? size : 1, std::align_val_t(64), std::nothrow);
  if (!memory) {
    give_memory_back(bytes);
    refuse(type, dims, bytes);
  }
  std::memset(memory, 0, size);
  data_ = memory;
  keep_ = std::shared_ptr<const void>(memory, [bytes](const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(64));
    give_memory_back(bytes);
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
  TENON_CHECK(dims.elements() == elements(), "reshape keeps the number of elements");
  Tensor tensor = *this;
  tensor.dims_ = dims;
  return tensor;
}

Tensor Tensor::copy() const {
  if (dtype_ == DType::string) return of_strings(dims_, *strings_);
  if (dtype_ == DType::sequence) return of_sequence(*sequence_);
  Tensor tensor(dtype_, dims_);
  if (bytes()) std::memcpy(tensor.data_, data_, bytes());
  return tensor;
}

}  // namespace tenon
