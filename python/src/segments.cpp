// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "images.h"
#include "vision/mask.h"
#include "vision/segment.h"

namespace tenon::python {
namespace {

using Classes = nb::ndarray<const uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::vector<Tensor> tensors(Held& held, const nb::list& outputs) {
  std::vector<Tensor> list;
  for (nb::handle one : outputs) list.push_back(held.tensor(one, DType::undefined, "an output"));
  return list;
}

std::optional<vision::MapHead> recognise(const nb::list& outputs, int width, int height, size_t labels,
                                         const std::vector<std::string>& names) {
  Held held;
  return vision::recognise_map(tensors(held, outputs), width, height, {.labels = labels, .outputs = names});
}

/// The class of each pixel, uint16, height x width.
nb::object segment(const vision::MapHead& head, const nb::list& outputs, int64_t image,
                   const vision::Transform& transform) {
  Held held;
  const std::vector<Tensor> values = tensors(held, outputs);
  Tensor classes;
  {
    const nb::gil_scoped_release free;
    const vision::ClassMap map = vision::segment(head, values, image, transform);
    classes = Tensor(DType::u16, {map.height, map.width});
    std::copy(map.classes.begin(), map.classes.end(), classes.data<uint16_t>());
  }
  return to_python(classes);
}

vision::ClassMap map_of(const Classes& classes) {
  return {static_cast<int>(classes.shape(1)), static_cast<int>(classes.shape(0)),
          std::vector<uint16_t>(classes.data(), classes.data() + classes.size())};
}

/// (class, pixels), largest first.
std::vector<std::pair<int, int64_t>> shares(const Classes& classes) {
  std::vector<std::pair<int, int64_t>> list;
  for (const vision::ClassShare& one : vision::shares_of(map_of(classes))) list.emplace_back(one.class_id, one.pixels);
  return list;
}

nb::object draw(const Pixels& pixels, const Classes& classes, const std::vector<std::string>& labels) {
  vision::Image image = image_of(pixels);
  vision::draw_segments(image, map_of(classes), labels);
  return array_of(std::move(image));
}

}  // namespace

void bind_segments(nb::module_& module) {
  nb::class_<vision::MapHead>(module, "MapHead", "What the outputs say of each pixel.")
      .def_prop_ro("kind", [](const vision::MapHead& self) { return vision::name(self.kind); })
      .def_ro("classes", &vision::MapHead::classes);
  module.def("recognise_map", &recognise, nb::arg("outputs"), nb::arg("width"), nb::arg("height"), nb::arg("labels"),
             nb::arg("names"),
             nb::sig("def recognise_map(outputs: list[typing.Any], width: int, height: int, labels: int, "
                     "names: list[str]) -> MapHead | None"));
  module.def("segment", &segment, nb::arg("head"), nb::arg("outputs"), nb::arg("image"), nb::arg("transform"),
             nb::sig("def segment(head: MapHead, outputs: list[typing.Any], image: int, transform: Transform) -> "
                     "typing.Any"));
  module.def("class_pixels", &shares, nb::arg("classes"),
             nb::sig("def class_pixels(classes: typing.Any) -> list[tuple[int, int]]"));
  module.def("draw_segments", &draw, nb::arg("image"), nb::arg("classes"), nb::arg("labels"),
             nb::sig("def draw_segments(image: typing.Any, classes: typing.Any, labels: list[str]) -> typing.Any"));
  module.def(
      "class_run_lengths",
      [](const Classes& classes, int id) {
        const vision::ClassMap map = map_of(classes);
        return vision::run_lengths(vision::mask_of(map, id), map.width, map.height);
      },
      nb::arg("classes"), nb::arg("id"), nb::sig("def class_run_lengths(classes: typing.Any, id: int) -> str"));
}

}  // namespace tenon::python
