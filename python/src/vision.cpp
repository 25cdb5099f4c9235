// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "images.h"
#include "vision/decode.h"
#include "vision/labels.h"
#include "vision/preprocess.h"
#include "vision/video.h"

namespace tenon::python {
namespace {

using vision::Image;
nb::object decode(nb::handle source) {
  Image image;
  if (nb::isinstance<nb::str>(source)) {
    const auto path = nb::cast<std::string>(source);
    const nb::gil_scoped_release free;
    image = vision::decode_image(path);
  } else {
    const auto bytes = nb::cast<nb::bytes>(source);
    const std::span view(reinterpret_cast<const uint8_t*>(bytes.c_str()), bytes.size());
    const nb::gil_scoped_release free;
    image = vision::decode_image(view, "an image in memory");
  }
  return array_of(std::move(image));
}

/// A batch of the images, and how each lies in it.
nb::tuple prepare(const std::vector<Pixels>& arrays, const vision::Spec& spec) {
  std::vector<Image> images;
  std::vector<vision::Transform> transforms;
  for (const Pixels& one : arrays) images.push_back(image_of(one));
  Tensor batch;
  {
    const nb::gil_scoped_release free;
    batch = vision::preprocess(images, spec, &transforms);
  }
  return nb::make_tuple(to_python(batch), transforms);
}

vision::Spec resolved(const vision::Spec& spec, const std::vector<int64_t>& sizes) {
  Dims dims{std::span<const int64_t>(sizes)};
  for (int64_t& size : dims) size = std::max<int64_t>(size, 0);
  return vision::resolve(spec, dims);
}

nb::object next_frame(vision::VideoReader& self) {
  Image image;
  bool more = false;
  {
    const nb::gil_scoped_release free;
    more = self.next(image);
  }
  return more ? array_of(std::move(image)) : nb::borrow(nb::none());
}

void bind_specs(nb::module_& module) {
  using vision::Spec;
  nb::class_<Spec>(module, "Preprocess",
                   "How an image becomes a network's input: geometry, then (pixel * scale - mean) / std.\n"
                   "Preprocess(\"yolo\"), Preprocess(\"imagenet\"), Preprocess(\"letterbox=640x640,scale=1/255\").")
      .def(
          "__init__",
          [](Spec* self, nb::handle given) {
            new (self) Spec(vision::parse_spec(nb::cast<std::string>(checked("spec", given))));
          },
          nb::arg("spec").none(), nb::sig("def __init__(self, spec: str | Preprocess) -> None"))
      .def_ro("width", &Spec::width, "Of the network's input; 0 until it is known.")
      .def_ro("height", &Spec::height, "Of the network's input; 0 until it is known.")
      .def_prop_ro(
          "mean", [](const Spec& self) { return nb::tuple(nb::cast(self.mean)); },
          nb::sig("def mean(self) -> tuple[float, ...]"))
      .def_prop_ro(
          "std", [](const Spec& self) { return nb::tuple(nb::cast(self.std)); },
          nb::sig("def std(self) -> tuple[float, ...]"))
      .def_ro("scale", &Spec::scale, "What pixels of 0 to 255 are multiplied with.")
      .def_prop_ro("colour", [](const Spec& self) { return self.colour == vision::Colour::bgr ? "bgr" : "rgb"; })
      .def("resolve", &resolved, nb::arg("sizes"), "With width, height and layout of an input's sizes.")
      .def("__str__", &Spec::str)
      .def("__repr__", [](const Spec& self) { return "Preprocess(\"" + self.str() + "\")"; })
      .def(
          "__eq__",
          [](const Spec& self, nb::handle other) {
            return nb::isinstance<Spec>(other) && self == nb::cast<const Spec&>(other);
          },
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__", [](const Spec& self) { return nb::hash(nb::str(self.str().c_str())); });
  nb::class_<vision::Transform>(module, "Transform", "How points of the image lie in the input: x * scale + offset.")
      .def_ro("scale_x", &vision::Transform::scale_x)
      .def_ro("scale_y", &vision::Transform::scale_y)
      .def_ro("offset_x", &vision::Transform::offset_x)
      .def_ro("offset_y", &vision::Transform::offset_y)
      .def_ro("source_width", &vision::Transform::source_width)
      .def_ro("source_height", &vision::Transform::source_height);
  module.def(
      "prepare", &prepare, nb::arg("images"), nb::arg("preprocess"),
      nb::sig("def prepare(images: list[typing.Any], preprocess: Preprocess) -> tuple[typing.Any, list[Transform]]"));
}

}  // namespace

vision::Image image_of(const Pixels& pixels) {
  if (pixels.shape(2) != 3)
    throw Error(Code::usage, "an image has three colours last", {.hint = "give height x width x 3, uint8, RGB"});
  Image image(static_cast<int>(pixels.shape(1)), static_cast<int>(pixels.shape(0)));
  std::copy_n(pixels.data(), image.pixels.size(), image.pixels.data());
  return image;
}

nb::object array_of(vision::Image&& image) {
  auto* keep = new Image(std::move(image));
  const nb::capsule owner(keep, [](void* kept) noexcept { delete static_cast<Image*>(kept); });
  return nb::cast(nb::ndarray<nb::numpy, uint8_t>(
      keep->pixels.data(), {static_cast<size_t>(keep->height), static_cast<size_t>(keep->width), size_t{3}}, owner));
}

void bind_vision(nb::module_& module) {
  bind_specs(module);
  bind_detections(module);
  bind_segments(module);
  module.def("decode_image", &decode, nb::arg("source"),
             nb::sig("def decode_image(source: str | bytes) -> typing.Any"));
  module.def(
      "encode_image",
      [](const Pixels& pixels, const std::string& path) { vision::encode_image(image_of(pixels), path); },
      nb::arg("image"), nb::arg("path"), nb::sig("def encode_image(image: typing.Any, path: str) -> None"));
  module.def("told_spec", &vision::told_spec, nb::arg("metadata"));
  module.def("labels_from_metadata", &vision::labels_from_metadata, nb::arg("text"));
  module.def("labels_from_file", &vision::labels_from_file, nb::arg("path"));
  module.def("is_image_name", &vision::is_image_name, nb::arg("path"));
  module.def("is_video_name", &vision::is_video_name, nb::arg("path"));
  module.def("video_available", &vision::video_available);
  nb::class_<vision::VideoReader>(module, "VideoReader", "Frames of a video as arrays, height x width x 3, RGB.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def_prop_ro("fps", &vision::VideoReader::fps)
      .def_prop_ro("frames", &vision::VideoReader::frames)
      .def("next", &next_frame, nb::sig("def next(self) -> typing.Any"), "The next frame; None at the end.");
  nb::class_<vision::VideoWriter>(module, "VideoWriter", "Writes an MP4 file, which appears at finish().")
      .def(nb::init<const std::string&, int, int, double>(), nb::arg("path"), nb::arg("width"), nb::arg("height"),
           nb::arg("fps"))
      .def(
          "add", [](vision::VideoWriter& self, const Pixels& pixels) { self.add(image_of(pixels)); }, nb::arg("frame"),
          nb::sig("def add(self, frame: typing.Any) -> None"))
      .def("finish", &vision::VideoWriter::finish);
}

}  // namespace tenon::python
