// SPDX-License-Identifier: Apache-2.0
#include "onnx/tensor.h"

#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "base/counted.h"
#include "base/pages.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

bool is_packed(DType type) { return type == DType::u4 || type == DType::i4; }

struct Decoder {
  const TensorProto& proto;
  const Source& source;
  std::string name = std::string(proto.name);

  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    throw Error(
        Code::invalid_model, what,
        {.where = "tensor '" + name + "' in " + source.file + ", byte " + std::to_string(proto.offset), .why = why});
  }

  Dims dims() const {
    for (int64_t size : proto.dims)
      if (size < 0) fail("a tensor has a negative size", "one of its sizes is " + std::to_string(size));
    if (proto.dims.size() > Dims::max_rank)
      throw Error(Code::unsupported,
                  "a tensor of rank " + std::to_string(proto.dims.size()) + " is above the limit of 8",
                  {.where = "tensor '" + name + "'"});
    return Dims(proto.dims);
  }

  int64_t elements(const Dims& dims) const {
    try {
      return dims.elements();
    } catch (const Error&) {
      fail("a tensor is too large", "the product of its sizes " + dims.str() + " does not fit into 64 bits");
    }
  }

  // Bytes of `count` elements as the file stores them.
  int64_t stored_bytes(DType type, int64_t count) const {
    if (is_packed(type)) return count / 2 + count % 2;
    int64_t bytes;
    if (__builtin_mul_overflow(count, static_cast<int64_t>(size_of(type)), &bytes))
      fail("a tensor is too large", counted(count, "element") + " of " + std::string(tenon::name(type)));
    return bytes;
  }

  void expect_count(const char* field, int64_t expected, size_t got, const Dims& dims, DType type) const {
    if (static_cast<int64_t>(got) != expected)
      fail("a tensor has the wrong number of elements", std::string(field) + " holds " + counted(got, "element") +
                                                            ", " + std::string(tenon::name(type)) + " of " +
                                                            dims.str() + " needs " + std::to_string(expected));
  }

  static void unpack(Tensor& to, const uint8_t* from) {
    const bool is_signed = to.dtype() == DType::i4;
    uint8_t* out = to.data<uint8_t>();
    const int64_t count = to.elements();
    for (int64_t at = 0; at < count; ++at) {
      const uint8_t nibble = (from[at / 2] >> (at % 2 * 4)) & 15;
      out[at] = is_signed && nibble >= 8 ? nibble | 0xf0 : nibble;
    }
  }

  Tensor of_bytes(DType type, const Dims& dims, Bytes bytes, const std::shared_ptr<const void>& keep) const {
    const size_t size = is_packed(type) ? 1 : size_of(type);
    if (is_packed(type)) {
      Tensor tensor(type, dims);
      unpack(tensor, reinterpret_cast<const uint8_t*>(bytes.data()));
      release_pages(bytes.data(), bytes.size());
      return tensor;
    }
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % size == 0;
    // What may be indices or shapes is checked once and read again: nobody else may write to it.
    constexpr size_t small = size_t{64} << 10;
    const bool steers = bytes.size() <= small || type == DType::i32 || type == DType::i64;
    const bool copied = bytes.empty() || (steers && is_of_file(bytes.data(), bytes.size()));
    if (keep && aligned && !copied) return Tensor::view(type, dims, const_cast<std::byte*>(bytes.data()), keep);
    Tensor tensor(type, dims);
    if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
    release_pages(bytes.data(), bytes.size());
    return tensor;
  }

  template <class To, class From>
  Tensor narrowed(DType type, const Dims& dims, const std::vector<From>& from) const {
    Tensor tensor(type, dims);
    To* to = tensor.data<To>();
    for (size_t at = 0; at < from.size(); ++at) to[at] = static_cast<To>(from[at]);
    return tensor;
  }

  Tensor of_fields(DType type, const Dims& dims, int64_t count) const {
    switch (type) {
      case DType::f32:
        expect_count("float_data", count, proto.floats.size(), dims, type);
        return narrowed<float>(type, dims, proto.floats);
      case DType::f64:
        expect_count("double_data", count, proto.doubles.size(), dims, type);
        return narrowed<double>(type, dims, proto.doubles);
      case DType::i64:
        expect_count("int64_data", count, proto.int64s.size(), dims, type);
        return narrowed<int64_t>(type, dims, proto.int64s);
      case DType::u64:
        expect_count("uint64_data", count, proto.uint64s.size(), dims, type);
        return narrowed<uint64_t>(type, dims, proto.uint64s);
      case DType::u32:
        expect_count("uint64_data", count, proto.uint64s.size(), dims, type);
        return narrowed<uint32_t>(type, dims, proto.uint64s);
      case DType::string: {
        expect_count("string_data", count, proto.strings.size(), dims, type);
        return Tensor::of_strings(dims, std::vector<std::string>(proto.strings.begin(), proto.strings.end()));
      }
      default: break;
    }
    expect_count("int32_data", is_packed(type) ? stored_bytes(type, count) : count, proto.int32s.size(), dims, type);
    if (is_packed(type)) {
      const std::vector<uint8_t> bytes(proto.int32s.begin(), proto.int32s.end());
      Tensor tensor(type, dims);
      unpack(tensor, bytes.data());
      return tensor;
    }
    switch (size_of(type)) {
      case 1:
        return type == DType::boolean ? narrowed<bool>(type, dims, proto.int32s)
                                      : narrowed<uint8_t>(type, dims, proto.int32s);
      case 2: return narrowed<uint16_t>(type, dims, proto.int32s);
      default: return narrowed<uint32_t>(type, dims, proto.int32s);
    }
  }

  int64_t external_number(std::string_view key, std::string_view text) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
      fail("the description of external data is invalid", std::string(key) + " is '" + std::string(text) + "'");
    return value;
  }

  Tensor of_external(DType type, const Dims& dims, int64_t bytes) const {
    std::string location;
    int64_t offset = 0, length = -1;
    for (const auto& [key, value] : proto.external) {
      if (key == "location") location = std::string(value);
      if (key == "offset") offset = external_number(key, value);
      if (key == "length") length = external_number(key, value);
    }
    if (!source.external) fail("external data is refused", "this model was not read from a folder");
    const auto file = source.external->file(location, name);
    const int64_t size = static_cast<int64_t>(file->bytes().size());
    if (length < 0) length = bytes;
    if (length != bytes)
      fail("external data has the wrong size", "length is " + counted(length, "byte") + ", " +
                                                   std::string(tenon::name(type)) + " of " + dims.str() + " needs " +
                                                   std::to_string(bytes));
    if (offset > size || length > size - offset)
      fail("external data ends too early", "'" + location + "' has " + counted(size, "byte") + ", " +
                                               "the tensor needs " + counted(length, "byte") + " from byte " +
                                               std::to_string(offset) + " on");
    return of_bytes(type, dims, file->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(length)), file);
  }

  Tensor decode() const {
    const DType type = element_type(proto.type, name);
    const Dims dims = this->dims();
    const int64_t count = elements(dims);
    const int fields = !proto.floats.empty() + !proto.int32s.empty() + !proto.int64s.empty() + !proto.uint64s.empty() +
                       !proto.doubles.empty() + !proto.strings.empty() + (proto.raw && !proto.raw->empty()) +
                       (proto.is_external && !proto.external.empty());
    if (fields > 1) fail("a tensor holds its elements twice", std::to_string(fields) + " data fields are set");
    if (type == DType::string) {
      if (proto.raw || proto.is_external) fail("a tensor of strings cannot be raw", "");
      return of_fields(type, dims, count);
    }
    const int64_t bytes = stored_bytes(type, count);
    if (proto.is_external) return of_external(type, dims, bytes);
    if (!proto.raw || (proto.raw->empty() && fields > 0)) return of_fields(type, dims, count);
    if (static_cast<int64_t>(proto.raw->size()) != bytes)
      fail("a tensor has the wrong number of bytes", "raw_data holds " + counted(proto.raw->size(), "byte") + ", " +
                                                         std::string(tenon::name(type)) + " of " + dims.str() +
                                                         " needs " + std::to_string(bytes));
    return of_bytes(type, dims, *proto.raw, source.keep);
  }
};

}  // namespace

const char* unsupported_type(int64_t type) {
  static const char* const others[] = {"complex64", "complex128", "float4e2m1", "float8e8m0", "uint2", "int2"};
  const int at = type == 14 ? 0 : type == 15 ? 1 : type >= 23 && type <= 26 ? static_cast<int>(type) - 21 : -1;
  return at < 0 ? nullptr : others[at];
}

DType element_type(int64_t type, const std::string& tensor) {
  const auto known = static_cast<DType>(type >= 0 && type < 255 ? type : 0);
  if (name(known) != "undefined" && type != 0) return known;
  if (const char* other = unsupported_type(type))
    throw Error(Code::unsupported, std::string("element type ") + other + " is not supported",
                {.where = "tensor '" + tensor + "'"});
  throw Error(Code::invalid_model, "element type " + std::to_string(type) + " does not exist",
              {.where = "tensor '" + tensor + "'"});
}

Tensor decode(const TensorProto& proto, const Source& source) { return Decoder{proto, source}.decode(); }

Tensor decode(const SparseProto& sparse, const Source& source) {
  const Tensor values = decode(sparse.values, source);
  const Tensor indices = decode(sparse.indices, source);
  TensorProto outer;
  outer.name = sparse.values.name;
  outer.dims = sparse.dims;
  const Decoder decoder{outer, source};
  const Dims dims = decoder.dims();
  const int64_t elements = decoder.elements(dims);
  const size_t size = size_of(values.dtype());
  const int64_t count = values.elements();
  if (size == 0) decoder.fail("a sparse tensor has elements of type " + std::string(name(values.dtype())), "");
  // A few bytes must not ask for any amount of memory.
  if (checked_mul(elements, static_cast<int64_t>(size)) > (int64_t{1} << 30))
    throw Error(Code::resource, "a sparse tensor is too large",
                {.where = "tensor '" + decoder.name + "'", .why = dims.str()});
  const bool linear = indices.dims().rank() == 1;
  if (indices.dtype() != DType::i64 || values.dims().rank() != 1 ||
      !(linear ? indices.dims() == Dims{count} : indices.dims() == Dims{count, static_cast<int64_t>(dims.rank())}))
    decoder.fail("the indices of a sparse tensor do not fit",
                 "values " + values.dims().str() + ", indices " + indices.dims().str());
  Tensor dense(values.dtype(), dims);
  const int64_t* index = indices.data<int64_t>();
  for (int64_t at = 0; at < count; ++at) {
    int64_t flat = linear ? index[at] : 0;
    for (size_t axis = 0; !linear && axis < dims.rank(); ++axis) {
      const int64_t step = *index++;
      if (step < 0 || step >= dims[axis])
        decoder.fail("an index of a sparse tensor is out of range", std::to_string(step));
      flat = flat * dims[axis] + step;
    }
    if (flat < 0 || flat >= elements) decoder.fail("an index of a sparse tensor is out of range", std::to_string(flat));
    std::memcpy(dense.data<std::byte>() + flat * static_cast<int64_t>(size),
                values.data<std::byte>() + at * static_cast<int64_t>(size), size);
  }
  return dense;
}

}  // namespace tenon::onnx
