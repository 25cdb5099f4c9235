// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>
#include <tenon/tenon.hpp>

#include <string>
#include <vector>

/// Tensors of Tenon and arrays of Python.
namespace tenon::python {

namespace nb = nanobind;

/// What holds the memory of arrays while tensors refer to it. It is made and ends with the GIL.
class Held {
 public:
  Held() = default;
  Held(Held&& other) noexcept : buffers_(std::move(other.buffers_)), objects_(std::move(other.objects_)) {
    other.buffers_.clear();
  }
  Held& operator=(Held&& other) noexcept {
    std::swap(buffers_, other.buffers_);
    std::swap(objects_, other.objects_);
    return *this;
  }
  ~Held();
  /// Refers to the object's memory: anything with Python's buffer protocol (NumPy) or with `__dlpack__`. What has
  /// neither (numbers, lists) becomes an array of `wanted`, whose elements this holds. With `writable` only memory that
  /// may be written is taken. Throws Error(usage) naming `name`.
  Tensor tensor(nb::handle object, DType wanted, const std::string& name, bool writable = false);

 private:
  bool from_buffer(nb::handle object, Tensor& tensor, const std::string& name, bool writable);
  std::vector<Py_buffer> buffers_;
  std::vector<nb::object> objects_;
};

/// A NumPy array on the tensor's memory; strings are an array of objects, a sequence is a list, and what NumPy has no
/// type for stays a Tensor. The array keeps the tensor alive, or `owner` in its place.
nb::object to_python(const Tensor& tensor, nb::handle owner = {});

/// "float32", "bfloat16", …: the names that NumPy and PyTorch use.
const char* dtype_name(DType type);
/// Throws Error(usage) where no type has that name.
DType dtype_named(const std::string& name);

void bind_tensors(nb::module_& module);

}  // namespace tenon::python
