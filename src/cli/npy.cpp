// SPDX-License-Identifier: Apache-2.0
#include "cli/npy.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "base/file.h"

namespace tenon::cli {

namespace {
constexpr char magic[] = "\x93NUMPY";
constexpr size_t magic_bytes = 6;
constexpr size_t alignment = 64;

struct Kind {
  const char* descr;
  DType dtype;
};
constexpr Kind kinds[] = {{"<f4", DType::f32}, {"<f8", DType::f64}, {"<f2", DType::f16}, {"|i1", DType::i8},
                          {"<i2", DType::i16}, {"<i4", DType::i32}, {"<i8", DType::i64}, {"|u1", DType::u8},
                          {"<u2", DType::u16}, {"<u4", DType::u32}, {"<u8", DType::u64}, {"|b1", DType::boolean}};

const char* descr_of(DType dtype) {
  for (const Kind& kind : kinds)
    if (kind.dtype == dtype) return kind.descr;
  switch (dtype) {
    case DType::bf16: return "<u2";
    case DType::i4: return "|i1";
    case DType::u4:
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return "|u1";
    default: return nullptr;
  }
}

[[noreturn]] void broken(const std::string& name, const std::string& why) {
  throw Error(Code::io, "not a readable .npy array", {.where = name, .why = why});
}

/// The text after "'key':" in the header's dictionary, without leading blanks.
std::string_view entry(std::string_view header, std::string_view key, const std::string& name) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos) broken(name, fmt::format("its header has no {}", key));
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

Dims shape_of(std::string_view text, const std::string& name) {
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) broken(name, "its shape cannot be read");
  Dims dims;
  for (size_t at = 1; at < end;) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    int64_t size = -1;
    const auto [stop, fault] = std::from_chars(text.data() + at, text.data() + end, size);
    if (fault != std::errc() || size < 0) broken(name, "its shape cannot be read");
    if (dims.rank() == Dims::max_rank) throw Error(Code::unsupported, "an array of more than 8 axes", {.where = name});
    dims.push_back(size);
    at = static_cast<size_t>(stop - text.data());
  }
  return dims;
}

/// Fills a tensor from elements whose first axis runs fastest.
void reorder(Tensor& tensor, const uint8_t* from) {
  const Dims& dims = tensor.dims();
  const size_t size = size_of(tensor.dtype());
  auto* to = tensor.data<uint8_t>();
  std::array<int64_t, Dims::max_rank> index{}, stride{};
  int64_t step = 1;
  for (size_t axis = 0; axis < dims.rank(); ++axis) stride[axis] = step, step *= dims[axis];
  for (int64_t at = 0, source = 0, count = tensor.elements(); at < count; ++at) {
    std::memcpy(to + static_cast<size_t>(at) * size, from + static_cast<size_t>(source) * size, size);
    for (size_t axis = dims.rank(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < dims[axis]) break;
      source -= stride[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

void swap_bytes(Tensor& tensor) {
  const size_t size = size_of(tensor.dtype());
  auto* data = tensor.data<uint8_t>();
  for (size_t at = 0; at + size <= tensor.bytes(); at += size) std::reverse(data + at, data + at + size);
}
}  // namespace

Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), magic, magic_bytes) != 0) broken(name, "it does not begin as one");
  const int version = bytes[6];
  if (version < 1 || version > 3) broken(name, fmt::format("its format version is {}", version));
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) broken(name, "it ends in its header");
  size_t length = bytes[8] | bytes[9] << 8;
  if (version > 1) length |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
  if (length > bytes.size() - prefix) broken(name, "it ends in its header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + prefix, length);

  const std::string_view descr = entry(header, "descr", name);
  const Kind* kind = nullptr;
  // A quoted byte order, type and size: '>f4'.
  const bool quoted = descr.size() > 4 && descr[4] == descr[0];
  for (const Kind& each : kinds)
    if (quoted && descr.substr(2, 2) == each.descr + 1 &&
        std::string_view("<>|=").find(descr[1]) != std::string_view::npos)
      kind = &each;
  if (!kind)
    throw Error(Code::unsupported,
                fmt::format("element type {} cannot be read", descr.substr(0, std::min<size_t>(descr.find(','), 40))),
                {.where = name, .hint = "save with numpy as a number type"});
  const bool fortran = entry(header, "fortran_order", name).substr(0, 4) == "True";
  const Dims dims = shape_of(entry(header, "shape", name), name);

  const int64_t expected = checked_mul(dims.elements(), static_cast<int64_t>(size_of(kind->dtype)), "array");
  const int64_t present = static_cast<int64_t>(bytes.size() - prefix - length);
  if (present != expected) broken(name, fmt::format("{} takes {} bytes, it has {}", dims.str(), expected, present));
  Tensor tensor(kind->dtype, dims);
  if (expected == 0) return tensor;
  const uint8_t* data = bytes.data() + prefix + length;
  if (fortran && dims.rank() > 1) reorder(tensor, data);
  else std::memcpy(tensor.data(), data, static_cast<size_t>(expected));
  if (descr[1] == '>') swap_bytes(tensor);
  return tensor;
}

std::vector<uint8_t> npy_bytes(const Tensor& tensor, const std::string& name) {
  const char* descr = descr_of(tensor.dtype());
  if (!descr)
    throw Error(Code::unsupported,
                fmt::format("a tensor of type {} cannot be written as .npy", tenon::name(tensor.dtype())),
                {.where = name});
  std::string shape;
  for (const int64_t size : tensor.dims()) shape += std::to_string(size) + ",";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  const size_t unpadded = 10 + header.size() + 1;
  header.append((alignment - unpadded % alignment) % alignment, ' ');
  header += '\n';
  std::vector<uint8_t> bytes(magic, magic + magic_bytes);
  for (const size_t byte : {size_t{1}, size_t{0}, header.size() & 255, header.size() >> 8})
    bytes.push_back(static_cast<uint8_t>(byte));
  bytes.insert(bytes.end(), header.begin(), header.end());
  const auto* data = tensor.data<uint8_t>();
  bytes.insert(bytes.end(), data, data + tensor.bytes());
  return bytes;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  const std::vector<uint8_t> bytes = npy_bytes(tensor, path);
  write_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace tenon::cli
