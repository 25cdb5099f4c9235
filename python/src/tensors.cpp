// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>

namespace tenon::python {
namespace {

struct Named {
  DType type;
  const char* name;
};
constexpr Named names[] = {{DType::f32, "float32"},
                           {DType::f64, "float64"},
                           {DType::f16, "float16"},
                           {DType::bf16, "bfloat16"},
                           {DType::i8, "int8"},
                           {DType::u8, "uint8"},
                           {DType::i16, "int16"},
                           {DType::u16, "uint16"},
                           {DType::i32, "int32"},
                           {DType::u32, "uint32"},
                           {DType::i64, "int64"},
                           {DType::u64, "uint64"},
                           {DType::boolean, "bool"},
                           {DType::string, "str"},
                           {DType::f8e4m3fn, "float8_e4m3fn"},
                           {DType::f8e4m3fnuz, "float8_e4m3fnuz"},
                           {DType::f8e5m2, "float8_e5m2"},
                           {DType::f8e5m2fnuz, "float8_e5m2fnuz"},
                           {DType::u4, "uint4"},
                           {DType::i4, "int4"},
                           {DType::sequence, "sequence"}};

std::optional<DType> integer(size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? DType::i8 : DType::u8;
    case 2: return is_signed ? DType::i16 : DType::u16;
    case 4: return is_signed ? DType::i32 : DType::u32;
    case 8: return is_signed ? DType::i64 : DType::u64;
    default: return std::nullopt;
  }
}

/// From the letter of Python's struct module.
std::optional<DType> type_of(const char* format, size_t bytes) {
  if (!format) return DType::u8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 0 || format[1] != 0) return std::nullopt;
  switch (*format) {
    case 'f': return DType::f32;
    case 'd': return DType::f64;
    case 'e': return DType::f16;
    case '?': return DType::boolean;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return integer(bytes, true);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return integer(bytes, false);
    default: return std::nullopt;
  }
}

Error unusable(const std::string& name, const std::string& why) {
  return Error(Code::usage, "the value cannot be a tensor", {.where = name, .why = why});
}

/// The tensor in a capsule of DLPack, which is thereby used up.
Tensor from_capsule(nb::handle capsule) {
  PyObject* held = capsule.ptr();
  if (PyCapsule_IsValid(held, "dltensor_versioned")) {
    void* managed = PyCapsule_GetPointer(held, "dltensor_versioned");
    PyCapsule_SetName(held, "used_dltensor_versioned");
    return dlpack::take(static_cast<dlpack::ManagedVersioned*>(managed));
  }
  void* managed = PyCapsule_GetPointer(held, "dltensor");
  if (!managed) throw nb::python_error();
  PyCapsule_SetName(held, "used_dltensor");
  return dlpack::take(static_cast<dlpack::Managed*>(managed));
}

Tensor strings_of(nb::handle array) {
  std::vector<std::string> strings;
  const nb::object flat = array.attr("ravel")().attr("tolist")();
  for (nb::handle item : flat) strings.push_back(nb::cast<std::string>(nb::str(item)));
  const auto sizes = nb::cast<std::vector<int64_t>>(array.attr("shape"));
  return Tensor::of_strings(Dims(std::span<const int64_t>(sizes)), std::move(strings));
}

/// Numbers, lists and the like as an array.
nb::object plain_array(nb::handle object, DType wanted, const std::string& name) {
  const char* type = wanted == DType::string ? "O" : dtype_name(wanted);
  try {
    return nb::module_::import_("numpy").attr("asarray")(object, nb::arg("dtype") = type);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    throw unusable(name, nb::cast<std::string>(nb::str(error.value())));
  }
}

/// Where NumPy's dtype has the name of a type that the buffer protocol lacks: ml_dtypes' bfloat16 and 8-bit floats.
std::optional<DType> type_by_name(nb::handle array) {
  if (!nb::hasattr(array, "dtype") || !nb::hasattr(array.attr("dtype"), "name")) return std::nullopt;
  const auto name = nb::cast<std::string>(nb::str(array.attr("dtype").attr("name")));
  for (const Named& one : names)
    if (name == one.name) return one.type;
  return std::nullopt;
}

/// Whether the bytes of its elements are in this machine's order.
bool is_native(nb::handle array) {
  return !nb::hasattr(array.attr("dtype"), "isnative") || nb::cast<bool>(array.attr("dtype").attr("isnative"));
}

PyObject* capsule_of(const Tensor& tensor, bool versioned) {
  if (versioned)
    return PyCapsule_New(dlpack::give_versioned(tensor), "dltensor_versioned", [](PyObject* capsule) {
      if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
      auto* managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      managed->deleter(managed);
    });
  return PyCapsule_New(dlpack::give(tensor), "dltensor", [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
    managed->deleter(managed);
  });
}

}  // namespace

const char* dtype_name(DType type) {
  for (const Named& one : names)
    if (one.type == type) return one.name;
  return "undefined";
}

DType dtype_named(const std::string& name) {
  for (const Named& one : names)
    if (name == one.name) return one.type;
  throw Error(Code::usage, "no type is called \"" + name + "\"", {.hint = "types have NumPy's names, as float32"});
}

Held::~Held() {
  for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
}

bool Held::from_buffer(nb::handle object, Tensor& tensor, const std::string& name, bool writable) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_FORMAT | PyBUF_STRIDES | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    PyErr_Clear();
    if (writable) throw unusable(name, "its memory cannot be written");
    return false;
  }
  buffers_.push_back(buffer);
  const auto type = type_of(buffer.format, static_cast<size_t>(buffer.itemsize));
  if (!type) return false;
  if (buffer.ndim > static_cast<int>(Dims::max_rank)) throw unusable(name, "it has more than 8 axes");
  const auto rank = static_cast<size_t>(buffer.ndim);
  Dims dims, strides;
  bool dense = true;
  int64_t step = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    dims.push_back(buffer.shape[axis]);
    if (buffer.strides[axis] % buffer.itemsize != 0) throw unusable(name, "its strides are no multiples of elements");
    strides.push_back(buffer.strides[axis] / buffer.itemsize);
  }
  for (size_t axis = rank; axis-- > 0;) {
    dense = dense && (dims[axis] == 1 || strides[axis] == step);
    step *= dims[axis];
  }
  if (reinterpret_cast<uintptr_t>(buffer.buf) % static_cast<size_t>(buffer.itemsize) != 0)
    throw unusable(name, "its elements are not aligned");
  tensor = dense || step == 0 ? Tensor::view(*type, dims, buffer.buf) : Tensor::view(*type, dims, strides, buffer.buf);
  return true;
}

Tensor Held::tensor(nb::handle object, DType wanted, const std::string& name, bool writable) {
  if (nb::isinstance<Tensor>(object)) return nb::cast<Tensor>(object);
  if (object.is_none()) throw unusable(name, "it is None");
  Tensor tensor;
  if (PyObject_CheckBuffer(object.ptr())) {
    if (from_buffer(object, tensor, name, writable)) return tensor;
    if (const auto type = type_by_name(object); type == DType::string) return strings_of(object);
    else if (type && !is_native(object)) {
      if (writable) throw unusable(name, "the bytes of its elements are in another order than this machine's");
      const nb::object plain = object.attr("astype")(object.attr("dtype").attr("newbyteorder")("="));
      objects_.push_back(plain);
      if (from_buffer(plain, tensor, name, false)) return tensor;
    } else if (type && size_of(*type) > 0) {
      const char* carrier = size_of(*type) == 2 ? "uint16" : "uint8";
      const nb::object plain = object.attr("view")(carrier);
      objects_.push_back(plain);
      if (from_buffer(plain, tensor, name, writable))
        return Tensor::view(*type, tensor.dims(), tensor.strides(), tensor.data());
    }
    if (wanted == DType::string) return strings_of(object);
    throw unusable(name, "its elements are of no type that Tenon has");
  }
  if (nb::hasattr(object, "__dlpack__")) {
    // Gradients are no part of a run.
    const nb::object plain = nb::hasattr(object, "detach") ? object.attr("detach")() : nb::borrow(object);
    nb::object capsule;
    const auto device = nb::cast<std::pair<int, int>>(plain.attr("__dlpack_device__")());
    if (device.first == dlpack::device_cuda || device.first == dlpack::device_cuda_managed) {
      // A run has a stream of its own: what makes the tensor must have ended.
      nb::module_::import_("tenon._streams").attr("settle")(plain);
      capsule = plain.attr("__dlpack__")(nb::arg("stream") = -1);
    } else {
      capsule = plain.attr("__dlpack__")();
    }
    return from_capsule(capsule);
  }
  if (writable) throw unusable(name, "it is neither an array nor has it __dlpack__");
  const nb::object array = plain_array(object, wanted, name);
  objects_.push_back(array);
  if (wanted == DType::string) return strings_of(array);
  if (from_buffer(array, tensor, name, false)) return tensor;
  throw unusable(name, "it is no array");
}

nb::object to_python(const Tensor& tensor, nb::handle owner) {
  if (tensor.dtype() == DType::string) {
    nb::list strings;
    for (const std::string& one : tensor.strings()) strings.append(nb::str(one.c_str(), one.size()));
    std::vector<int64_t> sizes(tensor.dims().begin(), tensor.dims().end());
    const nb::object flat = nb::module_::import_("numpy").attr("array")(strings, nb::arg("dtype") = nb::str("O"));
    return flat.attr("reshape")(nb::tuple(nb::cast(sizes)));
  }
  if (tensor.dtype() == DType::sequence) {
    nb::list list;
    for (const Tensor& item : tensor.sequence()) list.append(to_python(item));
    return list;
  }
  std::optional<dlpack::DataType> type = dlpack::type_of(tensor.dtype());
  if (tensor.dtype() == DType::u4) type = dlpack::DataType{dlpack::type_uint, 8, 1};
  if (tensor.dtype() == DType::i4) type = dlpack::DataType{dlpack::type_int, 8, 1};
  const bool foreign = !type || type->code > dlpack::type_bool || type->code == dlpack::type_bfloat;
  if (foreign || !tensor.on_cpu()) return nb::cast(tensor);
  const nb::object keep =
      owner ? nb::borrow(owner)
            : nb::capsule(new Tensor(tensor), [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  std::array<size_t, Dims::max_rank> shape{};
  const Dims strides = tensor.strides();
  for (size_t axis = 0; axis < tensor.dims().rank(); ++axis) shape[axis] = static_cast<size_t>(tensor.dims()[axis]);
  const nb::dlpack::dtype element{type->code, type->bits, type->lanes};
  return nb::cast(nb::ndarray<nb::numpy>(const_cast<void*>(tensor.data()), tensor.dims().rank(), shape.data(), keep,
                                         strides.begin(), element),
                  nb::rv_policy::reference);
}

void bind_tensors(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     "Elements that Tenon holds, where NumPy has no type or no memory for them (bfloat16, a GPU).\n"
                     "Others take it by DLPack, without a copy: torch.from_dlpack(tensor).")
      .def_prop_ro(
          "shape",
          [](const Tensor& self) {
            return nb::tuple(nb::cast(std::vector<int64_t>(self.dims().begin(), self.dims().end())));
          },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes, outermost first.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return dtype_name(self.dtype()); }, "Such as \"float32\".")
      .def_prop_ro(
          "device", [](const Tensor& self) { return self.device().str(); }, "\"cpu\" or \"cuda:0\".")
      .def_prop_ro("nbytes", &Tensor::bytes, "Bytes of its elements.")
      .def_prop_ro(
          "data_ptr", [](const Tensor& self) { return reinterpret_cast<uintptr_t>(self.data()); },
          "Address of the first element, on its device.")
      .def(
          "__dlpack__",
          [](const Tensor& self, nb::kwargs options) {
            bool versioned = false;
            if (options.contains("max_version") && !options["max_version"].is_none())
              versioned = nb::cast<int>(options["max_version"][0]) >= 1;
            return nb::steal(capsule_of(self, versioned));
          },
          nb::sig("def __dlpack__(self, **options: object) -> object"), "A capsule of DLPack 1.1 or, by default, 0.8.")
      .def(
          "__dlpack_device__",
          [](const Tensor& self) {
            const Device device = self.device();
            return std::pair<int, int>(self.on_cpu() ? dlpack::device_cpu : dlpack::device_cuda, device.index);
          },
          "Type and index of the device, as DLPack counts them.")
      .def_static(
          "at",
          [](uintptr_t address, const std::vector<int64_t>& shape, const std::string& dtype,
             const std::string& device) {
            const Dims dims{std::span<const int64_t>(shape)};
            return Tensor::view(dtype_named(dtype), dims, Dims(), reinterpret_cast<void*>(address), device);
          },
          nb::arg("address"), nb::arg("shape"), nb::arg("dtype"), nb::arg("device") = "cpu",
          "Dense elements at an address of the process or of a GPU, which the caller keeps alive.")
      .def("__repr__", [](const Tensor& self) {
        return "tenon.Tensor(" + self.dims().str() + ", " + dtype_name(self.dtype()) + ", " + self.device().str() + ")";
      });
}

}  // namespace tenon::python
