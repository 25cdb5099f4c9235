#pragma once
#include <tenon/tenon.h>

#include <cstdint>
#include <string>

/// Tensors in the form of DLPack (github.com/dmlc/dlpack), as PyTorch, CuPy and JAX give them, for Session::run_async.
/// Their header is not needed here: any struct with the members of DLTensor serves.
namespace tenon {

/// Bits and kind of a DLDataType; nullopt for types that have none.
struct DlpackType {
  uint8_t code, bits;
};
std::optional<DlpackType> dlpack_type(DType type);

/// What a DLTensor says of itself. Sizes and strides are counted in elements; `strides` may be null.
struct DlpackView {
  const void* data;
  int32_t device_type;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *sizes, *strides;
  uint64_t byte_offset;
};

/// The address of a tensor's elements on a GPU, for run_async. Throws Error(usage) naming `info`, where the tensor is
/// not on a CUDA device, not dense, or of another type or other sizes.
uint64_t device_address(const DlpackView& tensor, const TensorInfo& info);

template <class DlTensor>
uint64_t device_address(const DlTensor& tensor, const TensorInfo& info) {
  return device_address(
      DlpackView{tensor.data, static_cast<int32_t>(tensor.device.device_type), tensor.ndim, tensor.dtype.code,
                 tensor.dtype.bits, tensor.dtype.lanes, tensor.shape, tensor.strides, tensor.byte_offset},
      info);
}

}  // namespace tenon
