// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>
#include <optional>
#include <type_traits>

/// Tensors in the form of DLPack 1.1 (github.com/dmlc/dlpack), as NumPy, PyTorch, CuPy and JAX give and take them,
/// without copies. DLPack's header is not needed: these are its structures, byte for byte, and pointers to its own are
/// taken in their place.
namespace tenon::dlpack {

constexpr int32_t device_cpu = 1, device_cuda = 2, device_cuda_host = 3, device_cuda_managed = 13;
constexpr uint8_t type_int = 0, type_uint = 1, type_float = 2, type_bfloat = 4, type_bool = 6;
constexpr uint64_t flag_read_only = 1, flag_copied = 2;

/// DLDevice
struct DeviceId {
  int32_t type;
  int32_t index;
};

/// DLDataType
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

/// DLTensor. Sizes and strides are counted in elements; `strides` may be null for a dense tensor.
struct View {
  void* data;
  DeviceId device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

/// DLManagedTensor: what a capsule named "dltensor" holds.
struct Managed {
  View tensor;
  void* context;
  void (*deleter)(Managed* self);
};

/// DLManagedTensorVersioned: what a capsule named "dltensor_versioned" holds.
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  View tensor;
};

static_assert(sizeof(View) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80);

/// The type of elements; nullopt for types that DLPack lacks (strings, sequences, 4 bits).
TENON_API std::optional<DataType> type_of(DType type);

/// Refers to the same memory, which the caller keeps alive. Throws Error(unsupported) for a type, a rank or a device
/// that Tenon has none for.
TENON_API Tensor view(const View& tensor);
/// Takes the tensor over: its deleter is called once, with the last tensor that refers to it, also where this throws.
TENON_API Tensor take(Managed* tensor);
/// The same. Throws Error(unsupported) for another major version than 1.
TENON_API Tensor take(ManagedVersioned* tensor);
/// A tensor for others, who call its deleter once. Throws Error(unsupported) where DLPack has no such type.
TENON_API Managed* give(const Tensor& tensor);
TENON_API ManagedVersioned* give_versioned(const Tensor& tensor);

/// Structures of DLPack's own header.
template <class T>
Tensor from(T* tensor) {
  constexpr bool is_view = sizeof(T) == sizeof(View), is_managed = sizeof(T) == sizeof(Managed);
  static_assert(is_view || is_managed || sizeof(T) == sizeof(ManagedVersioned), "give a tensor of DLPack");
  static_assert(std::is_standard_layout_v<T>);
  if constexpr (is_view) return view(*reinterpret_cast<const View*>(tensor));
  else if constexpr (is_managed) return take(reinterpret_cast<Managed*>(tensor));
  else return take(reinterpret_cast<ManagedVersioned*>(tensor));
}

}  // namespace tenon::dlpack
