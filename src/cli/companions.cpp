// SPDX-License-Identifier: Apache-2.0
#include "cli/companions.h"

#include <tenon/error.h>

namespace tenon::cli {
namespace {

/// Types that hold a prepared pixel.
bool takes_pixels(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

bool is_image(const TensorInfo& info) {
  return takes_pixels(info.dtype) && (info.shape.size() == 4 || info.shape.size() == 3) && info.name != "pixel_mask";
}
bool is_companion(const TensorInfo& info) {
  const bool number = info.dtype == DType::f32 || info.dtype == DType::i64 || info.dtype == DType::i32;
  return number && ((info.name == "orig_target_sizes" && info.shape.size() == 2) ||
                    (info.name == "pixel_mask" && info.shape.size() == 3));
}

void put(Tensor& tensor, int64_t at, int64_t value) {
  switch (tensor.dtype()) {
    case DType::i64: tensor.data<int64_t>()[at] = value; break;
    case DType::i32: tensor.data<int32_t>()[at] = static_cast<int32_t>(value); break;
    default: tensor.data<float>()[at] = static_cast<float>(value);
  }
}

}  // namespace

size_t image_input(const std::vector<TensorInfo>& infos, const std::string& model) {
  size_t found = infos.size();
  std::string other;
  for (size_t at = 0; at < infos.size(); ++at) {
    if (found == infos.size() && is_image(infos[at])) found = at;
    else if (!is_companion(infos[at]) && other.empty()) other = infos[at].name;
  }
  if (found < infos.size() && other.empty()) return found;
  if (infos.size() == 1 && infos[0].shape.size() == 4)
    throw Error(Code::unsupported, "images cannot be given as " + std::string(name(infos[0].dtype)),
                {.where = "input \"" + infos[0].name + "\"",
                 .why = "they become f32, f16 or bf16",
                 .hint = "tenon run takes arrays of any type"});
  throw Error(Code::unsupported, "the model does not expect one image",
              {.where = model,
               .why = found < infos.size() ? "it has another input, \"" + other + "\"" : "",
               .hint = "tenon run takes any model"});
}

std::vector<int64_t> companion_sizes(const TensorInfo& info, int64_t batch, int64_t height, int64_t width) {
  std::vector<int64_t> sizes = info.shape;
  const std::vector<int64_t> otherwise =
      info.shape.size() == 2 ? std::vector<int64_t>{batch, 2} : std::vector<int64_t>{batch, height, width};
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] < 0) sizes[axis] = otherwise[axis];
  return sizes;
}

void fill_companion(const TensorInfo& info, Tensor tensor, int64_t height, int64_t width) {
  const bool mask = info.name == "pixel_mask";
  for (int64_t at = 0; at < tensor.elements(); ++at) put(tensor, at, mask ? 1 : at % 2 == 0 ? width : height);
}

}  // namespace tenon::cli
