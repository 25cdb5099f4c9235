// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

using namespace tenon::api;

namespace {

/// Structures of DLPack's own header are those of tenon/dlpack.h, byte for byte.
template <class To, class From>
To* cast(From* from) {
  return reinterpret_cast<To*>(from);
}

tenon::Tensor given(const tenon_tensor* tensor, int32_t copy) {
  const tenon::Tensor own = tensor_of(&required(tensor, "tensor"));
  return copy ? own.copy() : own;
}

}  // namespace

extern "C" {

tenon_code tenon_tensor_from_dlpack(const struct DLTensor* dlpack, tenon_tensor* tensor, tenon_error** error) {
  return guarded(error, [&] {
    write(form_of(tenon::dlpack::view(*cast<const tenon::dlpack::View>(&required(dlpack, "dlpack")))), tensor,
          "tensor");
  });
}

tenon_code tenon_tensor_to_dlpack(const tenon_tensor* tensor, int32_t copy, struct DLManagedTensor** dlpack,
                                  tenon_error** error) {
  return guarded(error, [&] {
    required(dlpack, "dlpack") = nullptr;
    *dlpack = cast<DLManagedTensor>(tenon::dlpack::give(given(tensor, copy)));
  });
}

tenon_code tenon_tensor_to_dlpack_versioned(const tenon_tensor* tensor, int32_t copy,
                                            struct DLManagedTensorVersioned** dlpack, tenon_error** error) {
  return guarded(error, [&] {
    required(dlpack, "dlpack") = nullptr;
    *dlpack = cast<DLManagedTensorVersioned>(tenon::dlpack::give_versioned(given(tensor, copy)));
  });
}
}
