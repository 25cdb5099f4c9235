// SPDX-License-Identifier: Apache-2.0
#include "vision/parts.h"

#include <tenon/error.h>

#include <algorithm>
#include <cmath>

#include "vision/mask.h"

namespace tenon::vision {
namespace {

constexpr float half = 0.5f;  // above it a pixel's probability makes it part of a mask

float part_of(double value, int limit) {
  return std::isfinite(value) ? static_cast<float>(std::clamp(value, 0.0, static_cast<double>(limit))) : 0;
}

void add_mask(const Head& head, const Tensor& planes, int64_t image, const float* row, const Transform& transform,
              Detection& one) {
  const Dims& dims = planes.dims();
  if (head.kind == HeadKind::labelled) {
    const float* own = planes.data<float>() + one.candidate * dims[2] * dims[3];
    const float alone[] = {1};
    one.mask = mask_of({own, 1, dims[2], dims[3]}, alone, one.box, transform, half);
    return;
  }
  const Extras extras(head, row, one.candidate);
  std::vector<float> coefficients(static_cast<size_t>(head.extras));
  for (size_t at = 0; at < coefficients.size(); ++at) coefficients[at] = extras[static_cast<int64_t>(at)];
  const float* data = planes.data<float>() + image * dims[1] * dims[2] * dims[3];
  one.mask = mask_of({data, dims[1], dims[2], dims[3]}, coefficients, one.box, transform);
}

void add_points(const Head& head, const float* row, const Tensor* keys, const Transform& transform, Detection& one) {
  const auto value = [&](int64_t point, int64_t at) {
    if (keys) return keys->data<float>()[(one.candidate * head.points + point) * head.point_values + at];
    return Extras(head, row, one.candidate)[point * head.point_values + at];
  };
  for (int64_t point = 0; point < head.points; ++point) {
    const float x = value(point, 0), y = value(point, 1), score = head.point_values > 2 ? value(point, 2) : 1;
    const bool finite = std::isfinite(x) && std::isfinite(y) && std::isfinite(score);
    one.points.push_back({part_of(transform.source_x(x), transform.source_width),
                          part_of(transform.source_y(y), transform.source_height), finite ? score : 0});
  }
}

}  // namespace

int64_t values_of(const Head& head) {
  const int64_t before = head.kind == HeadKind::end_to_end                                ? 6
                         : head.kind == HeadKind::yolov8 || head.kind == HeadKind::rtdetr ? 4
                                                                                          : 5;
  return before + head.classes + head.extras;
}

void check_parts(const Head& head, std::span<const Tensor> outputs) {
  const bool labelled = head.kind == HeadKind::labelled;
  const auto expect = [&](size_t at, size_t rank, bool fits, const char* what) {
    if (at < outputs.size() && outputs[at].dtype() == DType::f32 && outputs[at].dims().rank() == rank && fits) return;
    throw Error(Code::unsupported, "the outputs are not those of the detection head",
                {.where = "output " + std::to_string(at), .why = std::string("it holds no ") + what});
  };
  const auto size = [&](size_t at, size_t axis) {
    return at < outputs.size() && axis < outputs[at].dims().rank() ? outputs[at].dims()[axis] : -1;
  };
  const int64_t count = labelled ? size(head.labels, 0) : size(head.scores, 0);
  if (head.task == Task::segment)
    expect(head.masks, 4, size(head.masks, 0) == count && size(head.masks, 1) == (labelled ? 1 : head.extras), "masks");
  if (head.task == Task::pose && labelled)
    expect(head.keys, 3, size(head.keys, 0) == count && size(head.keys, 1) == head.points, "key points");
}

void add_parts(const Head& head, std::span<const Tensor> outputs, int64_t image, const Transform& transform,
               std::vector<Detection>& found) {
  if (head.task != Task::segment && head.task != Task::pose) return;
  const bool labelled = head.kind == HeadKind::labelled;
  const Tensor& rows = outputs[head.scores];
  const float* row = labelled ? nullptr : rows.data<float>() + image * (rows.elements() / rows.dims()[0]);
  for (Detection& one : found)
    if (head.task == Task::segment) add_mask(head, outputs[head.masks], image, row, transform, one);
    else add_points(head, row, labelled ? &outputs[head.keys] : nullptr, transform, one);
}

}  // namespace tenon::vision
