// SPDX-License-Identifier: Apache-2.0
#include "vision/segment.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "vision/draw.h"
#include "vision/labels.h"
#include "vision/mask.h"

namespace tenon::vision {
namespace {

constexpr int64_t most_classes = 65536;
constexpr float tint = 0.5f;  // of a class's colour over the image

template <class Test>
bool all(const Tensor& tensor, Test test) {
  const float* data = tensor.data<float>();
  return std::all_of(data, data + tensor.elements(), test);
}

bool holds_labels(const Tensor& tensor) {
  if (tensor.dtype() == DType::f32)
    return all(tensor, [](float x) { return x == std::round(x) && x >= 0 && x < most_classes; });
  return tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32 || tensor.dtype() == DType::u8;
}

int64_t label_of(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype()) {
    case DType::i64: return tensor.data<int64_t>()[at];
    case DType::i32: return tensor.data<int32_t>()[at];
    case DType::u8: return tensor.data<uint8_t>()[at];
    default: return static_cast<int64_t>(tensor.data<float>()[at]);
  }
}

/// Whether height and width are those of the input, or both reduced alike.
bool is_plane(int64_t height, int64_t width, int input_width, int input_height) {
  return height > 1 && width > 1 && height <= input_height && width <= input_width &&
         std::abs(height * input_width - width * input_height) <= std::max(input_width, input_height);
}

std::optional<MapHead> map_of(const Tensor& tensor, size_t output, int input_width, int input_height) {
  const Dims& dims = tensor.dims();
  if (tensor.elements() == 0 || dims.rank() < 3 || dims.rank() > 4) return std::nullopt;
  const bool single = dims.rank() == 3 || dims[1] == 1;
  const size_t rows = dims.rank() == 3 ? 1 : 2;
  MapHead head{.output = output, .height = dims[rows], .width = dims[rows + 1]};
  if (single && is_plane(head.height, head.width, input_width, input_height)) {
    const bool two = tensor.dtype() == DType::f32 && all(tensor, [](float x) { return x >= 0 && x <= 1; });
    if (holds_labels(tensor) && !(two && dims.rank() == 4)) {
      head.kind = MapKind::labels;
      return head;
    }
    if (tensor.dtype() != DType::f32 || dims.rank() == 3) return std::nullopt;
    head.kind = MapKind::binary, head.classes = 2, head.threshold = two ? 0.5f : 0.0f;
    return head;
  }
  if (dims.rank() != 4 || tensor.dtype() != DType::f32) return std::nullopt;
  head.channels_last = !is_plane(dims[2], dims[3], input_width, input_height);
  if (head.channels_last) head.height = dims[1], head.width = dims[2];
  head.classes = dims[head.channels_last ? 3 : 1];
  if (!is_plane(head.height, head.width, input_width, input_height) || head.classes < 2 || head.classes > most_classes)
    return std::nullopt;
  return head;
}

/// Where the source's columns or rows lie between the map's points.
struct Place {
  int64_t low = 0, high = 0, nearest = 0;
  float part = 0;
};

std::vector<Place> places(int count, double scale, double offset, int input_side, int64_t side) {
  std::vector<Place> all(static_cast<size_t>(count));
  for (int at = 0; at < count; ++at) {
    const double point = ((at + 0.5) * scale + offset) * static_cast<double>(side) / input_side;
    const double place = std::clamp(point - 0.5, 0.0, static_cast<double>(side - 1));
    const auto low = static_cast<int64_t>(place);
    all[static_cast<size_t>(at)] = {low, std::min(low + 1, side - 1),
                                    std::clamp(static_cast<int64_t>(point), int64_t{0}, side - 1),
                                    static_cast<float>(place - static_cast<double>(low))};
  }
  return all;
}

/// The scores of one image.
class Scores {
 public:
  Scores(const MapHead& head, const float* data) : head_(head), data_(data) {
    class_step_ = head.channels_last ? 1 : head.height * head.width;
    point_step_ = head.channels_last ? head.classes : 1;
    const auto points = static_cast<size_t>(head.height * head.width);
    best_.resize(points);
    std::vector<float> most(points, -std::numeric_limits<float>::infinity());
    for (int64_t id = 0; id < head.classes; ++id)
      for (size_t at = 0; at < points; ++at)
        if (const float score = at_point(static_cast<int64_t>(at), id); score > most[at])
          most[at] = score, best_[at] = static_cast<uint16_t>(id);
  }
  /// Where one class has the largest score at all four points around a place, it has it there, too.
  uint16_t at(const Place& x, const Place& y) const {
    const int64_t upper = y.low * head_.width, lower = y.high * head_.width;
    const int64_t points[4] = {upper + x.low, upper + x.high, lower + x.low, lower + x.high};
    const uint16_t first = best(points[0]);
    if (best(points[1]) == first && best(points[2]) == first && best(points[3]) == first) return first;
    uint16_t found = first;
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t id = 0; id < head_.classes; ++id) {
      const float a = at_point(points[0], id), b = at_point(points[1], id), c = at_point(points[2], id),
                  d = at_point(points[3], id);
      const float above = a + (b - a) * x.part, below = c + (d - c) * x.part, score = above + (below - above) * y.part;
      if (score > most) most = score, found = static_cast<uint16_t>(id);
    }
    return found;
  }

 private:
  float at_point(int64_t point, int64_t id) const { return data_[point * point_step_ + id * class_step_]; }
  uint16_t best(int64_t point) const { return best_[static_cast<size_t>(point)]; }
  const MapHead& head_;
  const float* data_;
  int64_t class_step_ = 1, point_step_ = 1;
  std::vector<uint16_t> best_;
};

bool is_above(const MapHead& head, const float* data, const Place& x, const Place& y) {
  const float *upper = data + y.low * head.width, *lower = data + y.high * head.width;
  const float above = upper[x.low] + (upper[x.high] - upper[x.low]) * x.part,
              below = lower[x.low] + (lower[x.high] - lower[x.low]) * x.part;
  return above + (below - above) * y.part > head.threshold;
}

void check(const MapHead& head, std::span<const Tensor> outputs, int64_t image) {
  const auto fits = [&] {
    if (head.output >= outputs.size()) return false;
    const Tensor& tensor = outputs[head.output];
    const int64_t channels = head.kind == MapKind::logits ? head.classes : 1;
    const Dims& dims = tensor.dims();
    return dims.rank() > 0 && image >= 0 && image < dims[0] &&
           tensor.elements() == dims[0] * channels * head.height * head.width &&
           (head.kind == MapKind::labels || tensor.dtype() == DType::f32);
  };
  if (!fits())
    throw Error(Code::unsupported, "the outputs are not those of the segmentation head",
                {.where = "output " + std::to_string(head.output)});
}

}  // namespace

const char* name(MapKind kind) {
  constexpr const char* names[] = {"logits", "binary", "labels"};
  return names[static_cast<size_t>(kind)];
}

std::optional<MapHead> recognise_map(std::span<const Tensor> outputs, int input_width, int input_height,
                                     const ModelHints& hints) {
  std::optional<MapHead> found;
  for (size_t at = 0; at < outputs.size(); ++at) {
    std::optional<MapHead> one = map_of(outputs[at], at, input_width, input_height);
    if (!one) continue;
    if (one->kind == MapKind::labels) one->classes = static_cast<int64_t>(hints.labels);
    const std::string name = at < hints.outputs.size() ? hints.outputs[at] : "";
    if (name == "out" || name == "logits" || name == "output") return one;
    if (!found) found = one;
  }
  return found;
}

ClassMap segment(const MapHead& head, std::span<const Tensor> outputs, int64_t image, const Transform& transform) {
  check(head, outputs, image);
  const Tensor& tensor = outputs[head.output];
  ClassMap map{transform.source_width, transform.source_height, {}};
  map.classes.resize(static_cast<size_t>(map.width) * static_cast<size_t>(map.height));
  const std::vector<Place> across =
      places(map.width, transform.scale_x, transform.offset_x, transform.input_width, head.width);
  const std::vector<Place> down =
      places(map.height, transform.scale_y, transform.offset_y, transform.input_height, head.height);
  const int64_t first = image * (tensor.elements() / tensor.dims()[0]);
  uint16_t* to = map.classes.data();
  const auto fill = [&](auto class_at) {
    for (const Place& y : down)
      for (const Place& x : across) *to++ = class_at(x, y);
  };
  if (head.kind == MapKind::logits) {
    const Scores scores(head, tensor.data<float>() + first);
    fill([&](const Place& x, const Place& y) { return scores.at(x, y); });
  } else if (head.kind == MapKind::binary) {
    const float* data = tensor.data<float>() + first;
    fill([&](const Place& x, const Place& y) { return static_cast<uint16_t>(is_above(head, data, x, y)); });
  } else {
    fill([&](const Place& x, const Place& y) {
      const int64_t label = label_of(tensor, first + y.nearest * head.width + x.nearest);
      return static_cast<uint16_t>(std::clamp<int64_t>(label, 0, most_classes - 1));
    });
  }
  return map;
}

std::vector<int64_t> pixels_of_classes(const ClassMap& map) {
  std::vector<int64_t> pixels;
  for (const uint16_t id : map.classes) {
    if (id >= pixels.size()) pixels.resize(size_t{id} + 1);
    ++pixels[id];
  }
  return pixels;
}

std::vector<ClassShare> shares_of(const ClassMap& map) {
  const std::vector<int64_t> pixels = pixels_of_classes(map);
  std::vector<ClassShare> shares;
  for (size_t id = 0; id < pixels.size(); ++id)
    if (pixels[id] > 0)
      shares.push_back({static_cast<int>(id), pixels[id],
                        static_cast<double>(pixels[id]) / static_cast<double>(map.classes.size())});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const ClassShare& a, const ClassShare& b) { return a.pixels > b.pixels; });
  return shares;
}

Mask mask_of(const ClassMap& map, int class_id) {
  Mask mask{0, 0, map.width, map.height, std::vector<uint8_t>(map.classes.size())};
  for (size_t at = 0; at < map.classes.size(); ++at) mask.bits[at] = map.classes[at] == class_id;
  return mask;
}

void draw_classes(Image& image, const ClassMap& map, int bare) {
  const auto at = [&](int x, int y) {
    return map.classes[static_cast<size_t>(y) * static_cast<size_t>(map.width) + static_cast<size_t>(x)];
  };
  constexpr Rgb edge = {255, 255, 255};
  constexpr float edge_share = 0.55f;
  const int reach = std::max(1, static_cast<int>(std::lrint(sizes_for(image).line / 2)));
  for (int y = 0; y < std::min(map.height, image.height); ++y)
    for (int x = 0; x < std::min(map.width, image.width); ++x) {
      const int id = at(x, y);
      const bool border =
          at(std::min(x + reach, map.width - 1), y) != id || at(x, std::min(y + reach, map.height - 1)) != id;
      if (id != bare) blend(image, x, y, class_colour(id), tint);
      if (border) blend(image, x, y, edge, edge_share);
    }
}

void draw_segments(Image& image, const ClassMap& map, const std::vector<std::string>& labels) {
  const auto ground = std::find_if(labels.begin(), labels.end(), [](const std::string& one) {
    return one == "background" || one == "__background__";
  });
  const int bare = ground == labels.end() ? -1 : static_cast<int>(ground - labels.begin());
  draw_classes(image, map, bare);
  std::vector<LegendLine> lines;
  for (const ClassShare& one : shares_of(map))
    if (one.class_id != bare)
      lines.push_back(
          {class_colour(one.class_id), fmt::format("{} {:.1f}%", label(labels, one.class_id), one.share * 100)});
  draw_legend(image, lines);
}

}  // namespace tenon::vision
