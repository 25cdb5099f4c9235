// SPDX-License-Identifier: Apache-2.0
#include <tenon/dlpack.h>
#include <tenon/error.h>

#include <array>
#include <memory>
#include <string>

#include "base/counted.h"
namespace tenon::dlpack {
namespace {

struct Known {
  DType type;
  uint8_t code, bits;
};
// Codes 10 to 13 are the floats of 8 bits.
constexpr std::array<Known, 17> known{{{DType::f64, type_float, 64},
                                       {DType::f32, type_float, 32},
                                       {DType::f16, type_float, 16},
                                       {DType::bf16, type_bfloat, 16},
                                       {DType::i64, type_int, 64},
                                       {DType::i32, type_int, 32},
                                       {DType::i16, type_int, 16},
                                       {DType::i8, type_int, 8},
                                       {DType::u64, type_uint, 64},
                                       {DType::u32, type_uint, 32},
                                       {DType::u16, type_uint, 16},
                                       {DType::u8, type_uint, 8},
                                       {DType::boolean, type_bool, 8},
                                       {DType::f8e4m3fn, 10, 8},
                                       {DType::f8e4m3fnuz, 11, 8},
                                       {DType::f8e5m2, 12, 8},
                                       {DType::f8e5m2fnuz, 13, 8}}};

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::unsupported, "the DLPack tensor cannot be taken", {.why = why});
}

DType type_for(const DataType& type) {
  for (const Known& one : known)
    if (one.code == type.code && one.bits == type.bits && type.lanes == 1) return one.type;
  refuse("elements of code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits and " +
         std::to_string(type.lanes) + " lanes have no type here");
}

Device device_for(const DeviceId& device) {
  switch (device.type) {
    case device_cpu:
    case device_cuda_host: return {};
    case device_cuda:
    case device_cuda_managed: return "cuda:" + std::to_string(device.index);
    default: refuse("it lies on a device of type " + std::to_string(device.type));
  }
}

Tensor referring_to(const View& tensor, std::shared_ptr<const void> keep) {
  const DType type = type_for(tensor.dtype);
  const Device device = device_for(tensor.device);
  if (tensor.ndim < 0 || tensor.ndim > static_cast<int32_t>(Dims::max_rank))
    refuse("it has " + counted(tensor.ndim, "axis") + ", at most 8 are possible");
  const auto rank = static_cast<size_t>(tensor.ndim);
  const Dims dims(std::span<const int64_t>(tensor.shape, rank));
  for (const int64_t size : dims)
    if (size < 0) refuse("it has a negative size");
  const Dims strides = tensor.strides ? Dims(std::span<const int64_t>(tensor.strides, rank)) : Dims();
  auto* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return Tensor::view(type, dims, strides, data, device, std::move(keep));
}

template <class Form>
Tensor taken(Form* form) {
  const std::shared_ptr<Form> keep(form, [](Form* self) {
    if (self->deleter) self->deleter(self);
  });
  if constexpr (std::is_same_v<Form, ManagedVersioned>)
    if (form->major != 1) refuse("its version is " + std::to_string(form->major) + ", and 1 is known");
  return referring_to(form->tensor, keep);
}

/// A tensor that was given away, with what its form points to.
template <class Form>
struct Given {
  Form form{};
  Tensor tensor;
  Dims sizes, strides;
};

template <class Form>
Form* given(const Tensor& tensor) {
  const auto type = type_of(tensor.dtype());
  if (!type) throw Error(Code::unsupported, "DLPack has no tensors of " + std::string(name(tensor.dtype())));
  const Device device = tensor.device();
  auto all = std::make_unique<Given<Form>>();
  all->tensor = tensor, all->sizes = tensor.dims(), all->strides = tensor.strides();
  View& view = all->form.tensor;
  view.data = all->tensor.data();
  view.device = {tensor.on_cpu() ? device_cpu : device_cuda, device.index};
  view.ndim = static_cast<int32_t>(tensor.dims().rank());
  view.dtype = *type;
  view.shape = all->sizes.begin(), view.strides = all->strides.begin();
  all->form.context = all.get();
  all->form.deleter = [](Form* self) { delete static_cast<Given<Form>*>(self->context); };
  return &all.release()->form;
}

}  // namespace

std::optional<DataType> type_of(DType type) {
  for (const Known& one : known)
    if (one.type == type) return DataType{one.code, one.bits, 1};
  return std::nullopt;
}

Tensor view(const View& tensor) { return referring_to(tensor, nullptr); }
Tensor take(Managed* tensor) { return taken(tensor); }
Tensor take(ManagedVersioned* tensor) { return taken(tensor); }
Managed* give(const Tensor& tensor) { return given<Managed>(tensor); }

ManagedVersioned* give_versioned(const Tensor& tensor) {
  ManagedVersioned* form = given<ManagedVersioned>(tensor);
  form->major = 1, form->minor = 1;
  return form;
}

}  // namespace tenon::dlpack
