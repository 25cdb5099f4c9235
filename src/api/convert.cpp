// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "api/handles.h"

namespace tenon::api {
namespace {

static_assert(TENON_F32 == static_cast<int>(DType::f32) && TENON_I4 == static_cast<int>(DType::i4) &&
              TENON_SEQUENCE == static_cast<int>(DType::sequence));
static_assert(TENON_SEVERITY_VERBOSE == static_cast<int>(Severity::verbose));
static_assert(TENON_INTERNAL == static_cast<int>(Code::internal) && TENON_IO == static_cast<int>(Code::io));
static_assert(TENON_MAX_RANK == Dims::max_rank);

Dims dims_of(const int64_t* sizes, int32_t rank, const char* what) {
  if (rank < 0 || rank > TENON_MAX_RANK)
    throw Error(Code::usage, std::string(what) + " of rank " + std::to_string(rank), {.hint = "give 0 to 8 axes"});
  return Dims(std::span<const int64_t>(sizes, static_cast<size_t>(rank)));
}

/// Copies of the caller's strings.
Tensor strings_of(const tenon_tensor& form, const Dims& dims) {
  if (form.has_strides)
    throw Error(Code::usage, "a tensor of strings has strides", {.hint = "give the strings one after the other"});
  const auto count = static_cast<size_t>(dims.elements());
  const auto* given = static_cast<const tenon_string*>(form.data);
  if (count > 0) required(given, "the memory of a tensor of strings");
  std::vector<std::string> strings;
  for (size_t at = 0; at < count; ++at)
    if (given[at].size > 0) strings.emplace_back(&required(given[at].data, "a string"), given[at].size);
    else strings.emplace_back();
  return Tensor::of_strings(dims, std::move(strings));
}

}  // namespace

Tensor tensor_of(const tenon_tensor* given) {
  if (!given) return {};
  const tenon_tensor form = read(given, tenon_tensor_init, "tensor");
  const auto type = static_cast<DType>(form.dtype);
  if (form.dtype <= TENON_UNDEFINED || form.dtype > TENON_I4)
    throw Error(Code::usage, "a tensor of type " + std::to_string(form.dtype),
                {.hint = "give a type of numbers, or strings"});
  const Dims dims = dims_of(form.dims, form.rank, "a tensor");
  for (const int64_t size : dims)
    if (size < 0) throw Error(Code::usage, "a tensor with a negative size");
  const Dims strides = form.has_strides ? dims_of(form.strides, form.rank, "a tensor") : Dims();
  const std::string device(form.device, strnlen(form.device, sizeof form.device));
  const Device where = device.empty() ? Device() : Device(device);
  if (type == DType::string && where == Device()) return strings_of(form, dims);
  Tensor tensor = Tensor::view(type, dims, strides, form.data, where);
  if (!form.data && tensor.elements() > 0)
    throw Error(Code::usage, "a tensor " + dims.str() + " has no memory",
                {.hint = "set data; no tensor at all unbinds"});
  return tensor;
}

tenon_tensor form_of(const Tensor& tensor, std::vector<tenon_string>* strings) {
  tenon_tensor form;
  tenon_tensor_init(&form);
  const bool is_text = tensor.dtype() == DType::string;
  if (is_text && !strings)
    throw Error(Code::unsupported, "a tensor of strings has no memory to be filled", {.hint = "bind one"});
  if (tensor.dtype() == DType::sequence) throw Error(Code::unsupported, "sequences are not offered to C");
  if (is_text) {
    strings->clear();
    for (const std::string& text : tensor.strings()) strings->push_back({text.c_str(), text.size()});
  }
  form.data = is_text ? strings->data() : const_cast<void*>(tensor.data());
  form.dtype = static_cast<tenon_dtype>(tensor.dtype());
  form.rank = static_cast<int32_t>(tensor.dims().rank());
  std::copy(tensor.dims().begin(), tensor.dims().end(), form.dims);
  const Dims strides = tensor.strides();
  std::copy(strides.begin(), strides.end(), form.strides);
  form.has_strides = !tensor.is_dense();
  std::snprintf(form.device, sizeof form.device, "%s", tensor.device().str().c_str());
  return form;
}

Shapes shapes_of(const tenon_shape* shapes, size_t count) {
  Shapes all;
  for (size_t at = 0; at < count; ++at) {
    const tenon_shape& one = required(shapes + at, "shapes");
    const Dims dims = dims_of(one.dims, one.rank, "a shape");
    all[&required(one.input, "the input of a shape")] = {dims.begin(), dims.end()};
  }
  return all;
}

std::map<std::string, Tensor> tensors_of(const tenon_named_tensor* given, size_t count) {
  std::map<std::string, Tensor> tensors;
  for (size_t at = 0; at < count; ++at) {
    const tenon_named_tensor& one = (&required(given, "inputs"))[at];
    tensors[one.name ? one.name : ""] = tensor_of(&required(one.tensor, "the tensor of an input"));
  }
  return tensors;
}

Logger logger_of(const tenon_logger* given) {
  const tenon_logger form = read(given, tenon_logger_init, "logger");
  if (!form.log) return {};
  const auto sink = [log = form.log, context = form.context](Severity severity, std::string_view message) {
    log(context, static_cast<tenon_severity>(severity), std::string(message).c_str());
  };
  return Logger(sink, static_cast<Severity>(form.least));
}

std::optional<Limits> limits_of(const tenon_limits* given) {
  if (!given) return std::nullopt;
  const tenon_limits form = read(given, tenon_limits_init, "limits");
  Limits limits{form.memory_bytes, INT64_MAX, form.workspace_bytes};
  if (form.loop_rounds != 0) limits.loop_rounds = form.loop_rounds;
  return limits;
}

}  // namespace tenon::api
