// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "images.h"
#include "vision/detect.h"
#include "vision/draw.h"
#include "vision/mask.h"

namespace tenon::python {
namespace {

using Bits = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Part = std::tuple<int, int, Bits>;  // left, top, and the pixels from there on
using Points = std::vector<std::array<float, 3>>;

std::vector<Tensor> tensors(Held& held, const nb::list& outputs) {
  std::vector<Tensor> list;
  for (nb::handle one : outputs) list.push_back(held.tensor(one, DType::f32, "an output"));
  return list;
}

std::optional<vision::Head> recognise(const nb::list& outputs, int width, int height, size_t labels,
                                      const std::map<std::string, std::string>& metadata,
                                      const std::vector<std::string>& names) {
  Held held;
  const auto hints = vision::ModelHints::of(metadata, labels, names);
  return vision::recognise(tensors(held, outputs), width, height, hints);
}

/// Rows of `width` numbers, one for each object.
template <class Fill>
nb::object rows(const std::vector<vision::Detection>& found, const Dims& row, DType type, Fill fill) {
  Dims dims{static_cast<int64_t>(found.size())};
  for (const int64_t size : row) dims.push_back(size);
  Tensor tensor(type, dims);
  for (size_t at = 0; at < found.size(); ++at) fill(found[at], tensor, static_cast<int64_t>(at) * row.elements());
  return to_python(tensor);
}

nb::object part_of(const vision::Mask& mask) {
  Tensor bits(DType::u8, {mask.height, mask.width});
  std::copy(mask.bits.begin(), mask.bits.end(), bits.data<uint8_t>());
  return nb::make_tuple(mask.x0, mask.y0, to_python(bits));
}

vision::Mask mask_of(const Part& part) {
  const auto& [left, top, bits] = part;
  vision::Mask mask{left, top, static_cast<int>(bits.shape(1)), static_cast<int>(bits.shape(0)), {}};
  mask.bits.assign(bits.data(), bits.data() + bits.size());
  for (uint8_t& bit : mask.bits) bit = bit != 0;
  return mask;
}

/// (boxes [n,4], scores [n], classes [n], key points [n,K,3] or None, oriented boxes [n,5] or None, masks as a list of
/// (left, top, pixels) or None).
nb::tuple detect(const vision::Head& head, const nb::list& outputs, int64_t image, const vision::Transform& transform,
                 float confidence, float iou, int most) {
  Held held;
  const auto values = tensors(held, outputs);
  const auto found = vision::detect(head, values, image, transform, {confidence, iou, most});
  nb::object points = nb::none(), rotated = nb::none(), masks = nb::none();
  if (head.task == vision::Task::pose)
    points = rows(found, {head.points, 3}, DType::f32, [](const vision::Detection& one, Tensor& to, int64_t at) {
      for (const vision::KeyPoint& point : one.points)
        for (const float value : {point.x, point.y, point.score}) to.data<float>()[at++] = value;
    });
  if (head.task == vision::Task::obb)
    rotated = rows(found, {5}, DType::f32, [](const vision::Detection& one, Tensor& to, int64_t at) {
      const vision::Rotated box = one.rotated.value_or(vision::Rotated{});
      for (const float value : {box.cx, box.cy, box.width, box.height, box.angle}) to.data<float>()[at++] = value;
    });
  if (head.task == vision::Task::segment) {
    nb::list list;
    for (const vision::Detection& one : found) list.append(part_of(one.mask));
    masks = list;
  }
  const auto boxes = rows(found, {4}, DType::f32, [](const vision::Detection& one, Tensor& to, int64_t at) {
    std::copy_n(one.box, 4, to.data<float>() + at);
  });
  const auto scores = rows(found, {}, DType::f32, [](const vision::Detection& one, Tensor& to, int64_t at) {
    to.data<float>()[at] = one.score;
  });
  const auto classes = rows(found, {}, DType::i32, [](const vision::Detection& one, Tensor& to, int64_t at) {
    to.data<int32_t>()[at] = one.class_id;
  });
  return nb::make_tuple(boxes, scores, classes, points, rotated, masks);
}

nb::object draw(const Pixels& pixels, const std::vector<std::array<float, 4>>& boxes, const std::vector<float>& scores,
                const std::vector<int>& classes, const std::vector<std::string>& labels,
                const std::optional<std::vector<Points>>& points,
                const std::optional<std::vector<std::array<float, 5>>>& rotated,
                const std::optional<std::vector<Part>>& masks) {
  std::vector<vision::Detection> found;
  for (size_t at = 0; at < boxes.size(); ++at) {
    vision::Detection& one = found.emplace_back();
    one.class_id = classes.at(at), one.score = scores.at(at);
    std::copy(boxes[at].begin(), boxes[at].end(), one.box);
    if (points)
      for (const auto& [x, y, score] : points->at(at)) one.points.push_back({x, y, score});
    if (rotated) {
      const auto& [cx, cy, width, height, angle] = rotated->at(at);
      one.rotated = vision::Rotated{cx, cy, width, height, angle};
    }
    if (masks) one.mask = mask_of(masks->at(at));
  }
  vision::Image image = image_of(pixels);
  vision::draw_detections(image, found, labels);
  return array_of(std::move(image));
}

}  // namespace

void bind_detections(nb::module_& module) {
  nb::class_<vision::Head>(module, "Head", "What a detector's outputs mean.")
      .def_prop_ro("kind", [](const vision::Head& self) { return vision::name(self.kind); })
      .def_prop_ro("task", [](const vision::Head& self) { return vision::name(self.task); })
      .def_ro("classes", &vision::Head::classes)
      .def_ro("candidates", &vision::Head::candidates)
      .def("__repr__", [](const vision::Head& self) { return "Head(" + vision::describe(self) + ")"; });
  module.def("recognise", &recognise, nb::arg("outputs"), nb::arg("width"), nb::arg("height"), nb::arg("labels"),
             nb::arg("metadata"), nb::arg("names"),
             nb::sig("def recognise(outputs: list[typing.Any], width: int, height: int, labels: int, "
                     "metadata: dict[str, str], names: list[str]) -> Head | None"));
  module.def("detect", &detect, nb::arg("head"), nb::arg("outputs"), nb::arg("image"), nb::arg("transform"),
             nb::arg("confidence"), nb::arg("iou"), nb::arg("most"),
             nb::sig("def detect(head: Head, outputs: list[typing.Any], image: int, transform: Transform, "
                     "confidence: float, iou: float, most: int) -> tuple[typing.Any, typing.Any, typing.Any, "
                     "typing.Any, typing.Any, typing.Any]"));
  module.def("draw", &draw, nb::arg("image"), nb::arg("boxes"), nb::arg("scores"), nb::arg("classes"),
             nb::arg("labels"), nb::arg("points").none(), nb::arg("rotated").none(), nb::arg("masks").none(),
             nb::sig("def draw(image: typing.Any, boxes: list[list[float]], scores: list[float], classes: list[int], "
                     "labels: list[str], points: typing.Any, rotated: typing.Any, masks: typing.Any) -> typing.Any"));
  module.def(
      "run_lengths",
      [](const Part& mask, int width, int height) { return vision::run_lengths(mask_of(mask), width, height); },
      nb::arg("mask"), nb::arg("width"), nb::arg("height"),
      nb::sig("def run_lengths(mask: typing.Any, width: int, height: int) -> str"));
}

}  // namespace tenon::python
