// SPDX-License-Identifier: Apache-2.0
#include "cli/arrays.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <cmath>
#include <set>

#include "base/check.h"
#include "cli/notes.h"
#include "cli/npy.h"
#include "onnx/import.h"
#include "ops/half.h"
#include "vision/file.h"

namespace tenon::cli {

namespace {
constexpr int64_t largest_file = int64_t{8} << 30;
}  // namespace

Tensor read_array(const std::string& path, DType dtype) {
  if (path.ends_with(".npy")) return parse_npy(vision::read_file(path, largest_file), path);
  if (path.ends_with(".pb")) {
    const auto bytes = vision::read_file(path, largest_file);
    const Tensor value = onnx::read_value(std::as_bytes(std::span(bytes)), path, dtype == DType::sequence);
    // The ONNX suite stores bfloat16 values under the type uint16.
    if (value.dtype() == DType::u16 && dtype == DType::bf16)
      return Tensor::view(dtype, value.dims(), const_cast<void*>(value.data()), std::make_shared<Tensor>(value));
    return value;
  }
  const size_t npz = path.rfind(".npz");
  if (npz != std::string::npos && (npz + 4 == path.size() || path[npz + 4] == ':')) {
    const std::string file = path.substr(0, npz + 4), key = npz + 4 == path.size() ? "" : path.substr(npz + 5);
    return parse_npz(vision::read_file(file, largest_file), key, file);
  }
  throw Error(Code::usage, "this file's name does not say what array it holds",
              {.where = path, .hint = "give a .npy, .npz:KEY or .pb file"});
}

namespace {
/// Calls `use` with a null pointer to the elements' own type; false for types that are not cast.
template <class Use>
bool with_number(DType dtype, Use use) {
  switch (dtype) {
    case DType::f64: use(static_cast<double*>(nullptr)); return true;
    case DType::f32: use(static_cast<float*>(nullptr)); return true;
    case DType::f16: use(static_cast<ops::Half*>(nullptr)); return true;
    case DType::bf16: use(static_cast<ops::BFloat*>(nullptr)); return true;
    case DType::i64: use(static_cast<int64_t*>(nullptr)); return true;
    case DType::i32: use(static_cast<int32_t*>(nullptr)); return true;
    default: return false;
  }
}

template <class To, class From>
void cast_all(Tensor& to, const Tensor& from, const std::string& path) {
  for (int64_t at = 0, count = from.elements(); at < count; ++at) {
    const From value = from.data<From>()[at];
    if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
      to.data<To>()[at] = static_cast<To>(value);
      if (static_cast<From>(to.data<To>()[at]) != value)
        throw Error(Code::usage, fmt::format("{} does not fit into {}", value, name(to.dtype())), {.where = path});
    } else if constexpr (!std::is_integral_v<To> && !std::is_integral_v<From>) {
      to.data<To>()[at] = static_cast<To>(static_cast<float>(value));
      if (std::isfinite(static_cast<float>(value)) != std::isfinite(static_cast<float>(to.data<To>()[at])))
        throw Error(Code::usage, fmt::format("{} does not fit into {}", static_cast<float>(value), name(to.dtype())),
                    {.where = path});
    }
  }
}

bool is_whole(DType dtype) { return dtype == DType::i64 || dtype == DType::i32; }

/// Elements of `from` as those of `to`; false where the types are not cast.
bool cast_elements(Tensor& to, const Tensor& from, const std::string& path) {
  if (is_whole(to.dtype()) != is_whole(from.dtype())) return false;
  bool known = false;
  with_number(to.dtype(), [&]<class To>(To*) {
    known = with_number(from.dtype(), [&]<class From>(From*) { cast_all<To, From>(to, from, path); });
  });
  return known;
}
}  // namespace

void cast_into(Tensor& to, const Tensor& from) {
  const bool known = cast_elements(to, from, "");
  TENON_CHECK(known, "no cast between these types");
}

Tensor cast_to_input(const Tensor& array, DType dtype, const std::string& path) {
  if (array.dtype() == dtype) return array;
  const auto nothing = [](auto*) {};
  if (!with_number(dtype, nothing) || !with_number(array.dtype(), nothing)) return array;
  Tensor result(dtype, array.dims());
  if (!cast_elements(result, array, path)) return array;
  static std::set<std::string> told;
  if (told.insert(path).second)
    note(fmt::format("{}: cast from {} to {}, which the input expects", path, name(array.dtype()), name(dtype)));
  return result;
}

std::string file_name_of(const std::string& tensor_name) {
  std::string file = tensor_name;
  for (char& c : file)
    if (c == '/' || c == ':' || c == '\0') c = '_';
  if (file == "." || file == "..") file = "_";
  return file + ".npy";
}

}  // namespace tenon::cli
