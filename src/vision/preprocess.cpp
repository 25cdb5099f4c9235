// SPDX-License-Identifier: Apache-2.0
#include "vision/preprocess.h"

#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "vision/clones.h"
#include "vision/resize.h"

namespace tenon::vision {
namespace {

/// The image is resampled to width x height; `region` of that lands at (left, top) of the input.
struct Placement {
  int width, height;
  Region region;
  int left = 0, top = 0;
  Transform transform;
};

int at_least_one(double side) { return std::max(static_cast<int>(side), 1); }

Placement letterbox(const Image& image, const Spec& spec) {
  double ratio =
      std::min(static_cast<double>(spec.height) / image.height, static_cast<double>(spec.width) / image.width);
  if (!spec.scale_up) ratio = std::min(ratio, 1.0);
  Placement place{};
  if (spec.anchor == Anchor::top_left) {
    place.width = at_least_one(image.width * ratio);
    place.height = at_least_one(image.height * ratio);
  } else {
    place.width = at_least_one(std::nearbyint(image.width * ratio));
    place.height = at_least_one(std::nearbyint(image.height * ratio));
    place.left = static_cast<int>(std::nearbyint((spec.width - place.width) / 2.0 - 0.1));
    place.top = static_cast<int>(std::nearbyint((spec.height - place.height) / 2.0 - 0.1));
  }
  place.region = {0, 0, place.width, place.height};
  place.transform = {.scale_x = ratio,
                     .scale_y = ratio,
                     .offset_x = static_cast<double>(place.left),
                     .offset_y = static_cast<double>(place.top)};
  return place;
}

Placement stretch(const Image& image, const Spec& spec) {
  Placement place{.width = spec.width, .height = spec.height, .region = {0, 0, spec.width, spec.height}};
  place.transform = {.scale_x = static_cast<double>(spec.width) / image.width,
                     .scale_y = static_cast<double>(spec.height) / image.height};
  return place;
}

Placement crop(const Image& image, const Spec& spec) {
  const int longer = std::max(spec.width, spec.height);
  const int side = spec.short_side > 0 ? spec.short_side : static_cast<int>(std::lrint(longer * 8.0 / 7.0));
  if (side < longer)
    throw Error(Code::usage, "cannot use this preprocessing",
                {.where = spec.str(),
                 .why = "the crop is larger than the shorter side",
                 .hint = "short must be at least " + std::to_string(longer)});
  const bool wide = image.width > image.height;
  const int64_t longest =
      static_cast<int64_t>(side) * std::max(image.width, image.height) / std::min(image.width, image.height);
  if (longest * side > max_pixels)
    throw Error(Code::resource, "the image is too long for its width",
                {.where = std::to_string(image.width) + "x" + std::to_string(image.height) + " pixels",
                 .hint = "use resize or letterbox"});
  Placement place{};
  place.width = wide ? static_cast<int>(longest) : side;
  place.height = wide ? side : static_cast<int>(longest);
  const int x = static_cast<int>(std::nearbyint((place.width - spec.width) / 2.0));
  const int y = static_cast<int>(std::nearbyint((place.height - spec.height) / 2.0));
  place.region = {x, y, spec.width, spec.height};
  place.transform = {.scale_x = static_cast<double>(place.width) / image.width,
                     .scale_y = static_cast<double>(place.height) / image.height,
                     .offset_x = -static_cast<double>(x),
                     .offset_y = -static_cast<double>(y)};
  return place;
}

Placement place(const Image& image, const Spec& spec) {
  if (image.width <= 0 || image.height <= 0) throw Error(Code::usage, "the image is empty");
  if (spec.width <= 0 || spec.height <= 0)
    throw Error(Code::usage, "the preprocessing has no size", {.where = spec.str(), .hint = "add size=WIDTHxHEIGHT"});
  Placement placed = spec.fit == Fit::letterbox ? letterbox(image, spec)
                     : spec.fit == Fit::resize  ? stretch(image, spec)
                                                : crop(image, spec);
  placed.transform.source_width = image.width;
  placed.transform.source_height = image.height;
  placed.transform.input_width = spec.width;
  placed.transform.input_height = spec.height;
  return placed;
}

TENON_CLONES void scale_plane(const uint8_t* in, float factor, float bias, size_t count, float* out) {
  for (size_t x = 0; x < count; ++x) out[x] = static_cast<float>(in[x]) * factor + bias;
}

TENON_CLONES void scale_strided(const uint8_t* in, float factor, float bias, size_t count, float* out) {
  for (size_t x = 0; x < count; ++x) out[x * 3] = static_cast<float>(in[x]) * factor + bias;
}

/// Brightness in all three channels, as ITU-R BT.601 and OpenCV weigh them.
Image grey_of(const Image& image) {
  Image grey(image.width, image.height);
  for (size_t at = 0; at + 2 < image.pixels.size(); at += 3) {
    const uint8_t* const from = image.pixels.data() + at;
    const int value = (4899 * from[0] + 9617 * from[1] + 1868 * from[2] + (1 << 13)) >> 14;
    std::fill_n(grey.pixels.data() + at, 3, static_cast<uint8_t>(value));
  }
  return grey;
}

}  // namespace

Transform preprocess(const Image& image, const Spec& spec, float* out) {
  if (spec.colour == Colour::grey) {
    Spec coloured = spec;
    coloured.colour = Colour::rgb;
    coloured.layout = Layout::nchw;
    // One mean and deviation for the one channel: those of the three, averaged.
    coloured.mean.fill((spec.mean[0] + spec.mean[1] + spec.mean[2]) / 3);
    coloured.std.fill((spec.std[0] + spec.std[1] + spec.std[2]) / 3);
    const size_t plane = static_cast<size_t>(spec.width) * static_cast<size_t>(spec.height);
    std::vector<float> planes(3 * plane);
    const Transform transform = preprocess(grey_of(image), coloured, planes.data());
    std::copy_n(planes.begin(), plane, out);
    return transform;
  }
  const Placement placed = place(image, spec);
  const auto rows = resampler(image, placed.width, placed.height, spec.interpolation, placed.region);
  const size_t width = static_cast<size_t>(spec.width), plane = width * static_cast<size_t>(spec.height);
  const size_t columns = static_cast<size_t>(placed.region.width), left = static_cast<size_t>(placed.left);
  const bool planar = spec.layout == Layout::nchw;
  std::vector<uint8_t> line(columns * 3), border(width, static_cast<uint8_t>(spec.pad));
  for (int y = 0; y < spec.height; ++y) {
    const bool inside = y >= placed.top && y < placed.top + placed.region.height;
    if (inside) rows->row(y - placed.top, line.data());
    for (size_t channel = 0; channel < 3; ++channel) {
      const auto factor = static_cast<float>(static_cast<double>(spec.scale) / spec.std[channel]);
      const auto bias = static_cast<float>(-static_cast<double>(spec.mean[channel]) / spec.std[channel]);
      float* const to = planar ? out + channel * plane + static_cast<size_t>(y) * width
                               : out + static_cast<size_t>(y) * width * 3 + channel;
      const size_t step = planar ? 1 : 3;
      const auto write = planar ? scale_plane : scale_strided;
      if (!inside) {
        write(border.data(), factor, bias, width, to);
        continue;
      }
      const uint8_t* values = line.data() + (spec.colour == Colour::rgb ? channel : 2 - channel) * columns;
      write(border.data(), factor, bias, left, to);
      write(values, factor, bias, columns, to + left * step);
      write(border.data(), factor, bias, width - left - columns, to + (left + columns) * step);
    }
  }
  return placed.transform;
}

Tensor preprocess(std::span<const Image> images, const Spec& spec, std::vector<Transform>* transforms) {
  const auto count = static_cast<int64_t>(images.size());
  const int64_t channels = spec.channels();
  const Dims dims = spec.layout == Layout::nchw ? Dims{count, channels, spec.height, spec.width}
                                                : Dims{count, spec.height, spec.width, channels};
  Tensor tensor(DType::f32, dims);
  const size_t each =
      static_cast<size_t>(spec.width) * static_cast<size_t>(spec.height) * static_cast<size_t>(channels);
  if (transforms) transforms->clear();
  for (size_t at = 0; at < images.size(); ++at) {
    const Transform transform = preprocess(images[at], spec, tensor.data<float>() + at * each);
    if (transforms) transforms->push_back(transform);
  }
  return tensor;
}

Image fit(const Image& image, const Spec& spec) {
  const Placement placed = place(image, spec);
  const auto rows = resampler(image, placed.width, placed.height, spec.interpolation, placed.region);
  Image out(spec.width, spec.height);
  std::memset(out.pixels.data(), spec.pad, out.pixels.size());
  const size_t columns = static_cast<size_t>(placed.region.width);
  std::vector<uint8_t> line(columns * 3);
  for (int y = 0; y < placed.region.height; ++y) {
    rows->row(y, line.data());
    uint8_t* to = out.row(placed.top + y) + static_cast<size_t>(placed.left) * 3;
    for (size_t x = 0; x < columns; ++x)
      for (size_t channel = 0; channel < 3; ++channel) to[x * 3 + channel] = line[channel * columns + x];
  }
  return out;
}

}  // namespace tenon::vision
