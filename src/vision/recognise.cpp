// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/counted.h"
#include "vision/heads.h"

namespace tenon::vision {
namespace {

constexpr int strides[] = {8, 16, 32};
constexpr float largest_log_size = 16;   // a size in pixels is above it somewhere, a logarithm never
constexpr float largest_fraction = 1.5;  // of the input; a size in pixels is above it somewhere
constexpr int64_t fewest_rows = 64;      // of a grid of candidates

bool is_f32_cube(const Tensor& tensor) {
  return tensor.dtype() == DType::f32 && tensor.dims().rank() == 3 && tensor.elements() > 0;
}

/// [N,values,A] or [N,A,values], all images as one.
struct Cube {
  const float* data;
  int64_t images, values, count;
  bool planes;

  Cube(const Tensor& tensor, int64_t grid) : data(tensor.data<float>()), images(tensor.dims()[0]) {
    const int64_t first = tensor.dims()[1], second = tensor.dims()[2];
    // Small inputs have fewer candidates than values.
    planes = second == grid || (first != grid && first != 3 * grid && second > first);
    values = tensor.dims()[planes ? 1 : 2], count = tensor.dims()[planes ? 2 : 1];
  }
  /// Whether `test` holds for a value of all candidates.
  template <class Test>
  bool all(int64_t value, Test test) const {
    for (int64_t image = 0; image < images; ++image)
      for (int64_t at = 0; at < count; ++at)
        if (!test(data[image * values * count + (planes ? value * count + at : at * values + value)])) return false;
    return true;
  }
  bool is_share(int64_t value) const {
    return all(value, [](float x) { return !(x < -1e-3f || x > 1 + 1e-3f) && std::isfinite(x); });
  }
};

/// Whether values 2 and 3 are logarithms of sizes, not pixels.
bool sizes_are_logarithms(const Cube& cube) {
  const auto is_log = [](float x) { return x < largest_log_size; };
  const auto has_negative = [&](int64_t value) { return !cube.all(value, [](float x) { return !(x < 0); }); };
  return has_negative(2) || has_negative(3) || (cube.all(2, is_log) && cube.all(3, is_log));
}

/// Whether widths and heights are none: logits, of characters along a line for example, where sizes would lie.
bool sizes_are_negative(const Cube& cube) {
  const auto is_size = [](float x) { return !(x < 0); };
  return !cube.all(2, is_size) && !cube.all(3, is_size);
}

/// Whether the first four values are a box as fractions of the input.
bool are_fractions(const Cube& cube) {
  bool some = false;
  for (int64_t value = 0; value < 4; ++value) {
    if (!cube.all(value, [](float x) { return std::isfinite(x) && x >= -0.5f && x <= largest_fraction; })) return false;
    some |= value > 1 && !cube.all(value, [](float x) { return x <= 0; });
  }
  return some;
}

/// Rows that sum to one are class probabilities, of characters along a line for example; boxes do so only by chance.
bool rows_sum_to_one(const Tensor& tensor) {
  constexpr int64_t most_rows = 64;
  const int64_t values = tensor.dims()[2], rows = std::min(tensor.dims()[1], most_rows);
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (int64_t column = 0; column < values; ++column) sum += tensor.data<float>()[row * values + column];
    if (!(std::abs(sum - 1) <= 1e-2f)) return false;
  }
  return true;
}

bool has_logits(const Tensor& scores) {
  const float* data = scores.data<float>();
  return std::any_of(data, data + scores.elements(), [](float x) { return x < 0 || x > 1; });
}

/// Whether the last of the scores is the largest for most candidates: "no object" is, a class is not.
bool last_is_largest(const Tensor& scores) {
  const int64_t values = scores.dims()[2], rows = scores.elements() / values;
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* one = scores.data<float>() + row * values;
    count += std::max_element(one, one + values) == one + values - 1;
  }
  return count * 2 > rows;
}

/// Whether rows of four numbers are corners in order, or else centre and size as fractions of the input. Offsets from
/// anchors are neither: half of them are below 0.
bool are_boxes(const Tensor& boxes, bool corners) {
  constexpr float slack = 0.01f;
  constexpr double most_wrong = 0.05;
  const float* data = boxes.data<float>();
  const int64_t rows = boxes.elements() / 4;
  int64_t wrong = 0;
  for (int64_t row = 0; row < rows; ++row, data += 4)
    if (corners) wrong += data[2] < data[0] || data[3] < data[1];
    else wrong += std::any_of(data, data + 4, [](float x) { return x < -slack || x > 1 + slack; });
  return static_cast<double>(wrong) <= most_wrong * static_cast<double>(rows);
}

std::optional<size_t> named(const ModelHints& hints, size_t count, std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (size_t at = 0; at < std::min(hints.outputs.size(), count); ++at)
      if (hints.outputs[at] == name) return at;
  return std::nullopt;
}

/// Scores and boxes in two outputs: UltraFace's, or logits.
std::optional<Head> recognise_pair(std::span<const Tensor> outputs, const ModelHints& hints) {
  const auto named_boxes = named(hints, outputs.size(), {"pred_boxes", "dets"}),
             named_scores = named(hints, outputs.size(), {"logits", "pred_logits", "labels"});
  const bool by_name = named_boxes && named_scores;
  if (!by_name && outputs.size() != 2) return std::nullopt;
  const size_t one = by_name ? *named_boxes : 0, other = by_name ? *named_scores : 1;
  if (!is_f32_cube(outputs[one]) || !is_f32_cube(outputs[other])) return std::nullopt;
  const Dims &first = outputs[one].dims(), &second = outputs[other].dims();
  if (first[0] != second[0] || first[1] != second[1]) return std::nullopt;
  const bool boxes_first = first[2] == 4 && (by_name || !(second[2] == 4 && rows_sum_to_one(outputs[one])));
  const size_t boxes = boxes_first ? one : other, scores = boxes_first ? other : one;
  const int64_t values = outputs[scores].dims()[2];
  if (outputs[boxes].dims()[2] != 4 || values < (by_name ? 1 : 2)) return std::nullopt;
  const bool is_ssd = !by_name && !has_logits(outputs[scores]);
  if (!by_name && !are_boxes(outputs[boxes], is_ssd)) return std::nullopt;
  Head head{HeadKind::ssd, false, scores, boxes, first[1], values - 1};
  head.from = "the shapes of two outputs";
  if (is_ssd) return head;
  head.kind = HeadKind::detr;
  const auto known = static_cast<int64_t>(hints.labels);
  head.no_object = known == values - 1 || (known != values && values > 1 && last_is_largest(outputs[scores]));
  head.classes = values - head.no_object;
  head.from = by_name ? "the outputs' names" : "the shapes of two outputs, one of them logits";
  return head;
}

/// Whether two outputs have a row for each candidate, one of them four numbers: neither is a head by itself.
bool are_pair(std::span<const Tensor> outputs) {
  if (outputs.size() != 2 || !is_f32_cube(outputs[0]) || !is_f32_cube(outputs[1])) return false;
  const Dims &one = outputs[0].dims(), &other = outputs[1].dims();
  return one[0] == other[0] && one[1] == other[1] && (one[2] == 4 || other[2] == 4);
}

bool may_be_labels(DType type) { return type == DType::i64 || type == DType::i32; }

/// Boxes, labels and scores in three outputs, masks and key points in more.
std::optional<Head> recognise_labelled(std::span<const Tensor> outputs, const ModelHints& hints) {
  if (outputs.size() < 3) return std::nullopt;
  const auto find = [&](const char* name, auto test) -> std::optional<size_t> {
    if (const auto at = named(hints, outputs.size(), {name}); at && test(outputs[*at])) return at;
    for (size_t at = 0; at < outputs.size(); ++at)
      if (test(outputs[at])) return at;
    return std::nullopt;
  };
  const auto boxes = find("boxes", [](const Tensor& one) {
    const Dims& dims = one.dims();
    return one.dtype() == DType::f32 && (dims.rank() == 2 || dims.rank() == 3) && dims.back() == 4;
  });
  if (!boxes) return std::nullopt;
  Dims list = outputs[*boxes].dims();
  list.erase(list.rank() - 1);
  const auto labels =
      find("labels", [&](const Tensor& one) { return may_be_labels(one.dtype()) && one.dims() == list; });
  const auto scores =
      find("scores", [&](const Tensor& one) { return one.dtype() == DType::f32 && one.dims() == list; });
  if (!labels || !scores) return std::nullopt;
  Head head{HeadKind::labelled, false, *scores, *boxes, 0, 0};
  head.labels = *labels;
  head.from = "the types and shapes of three outputs";
  if (list.rank() != 1) return head;
  const auto masks = find("masks", [&](const Tensor& one) {
    return one.dtype() == DType::f32 && one.dims().rank() == 4 && one.dims()[0] == list[0] && one.dims()[1] == 1;
  });
  const auto keys = find("keypoints", [&](const Tensor& one) {
    const Dims& dims = one.dims();
    return one.dtype() == DType::f32 && dims.rank() == 3 && dims[0] == list[0] && dims[2] == 3;
  });
  if (masks) head.task = Task::segment, head.masks = *masks;
  else if (keys)
    head.task = Task::pose, head.keys = *keys, head.points = outputs[*keys].dims()[1], head.point_values = 3;
  return head;
}

/// Tells what follows the class scores of planes that no metadata explains. The scores are the values in [0,1] behind
/// the box; key points are pixels with a score for each third value, an angle is one value.
void guess_extras(const Cube& cube, int64_t known, Head& head) {
  int64_t classes = 0;
  while (4 + classes < cube.values && (known == 0 || classes < known) && cube.is_share(4 + classes)) ++classes;
  const int64_t extras = cube.values - 4 - classes;
  if (classes == 0 || extras == 0 || (known && classes != known) || cube.is_share(4 + classes)) return;
  head.from = "the values of its planes";
  if (extras == 1) {
    head.task = Task::obb, head.extras = 1;
    return;
  }
  bool thirds = extras % 3 == 0;
  for (int64_t at = 2; thirds && at < extras; at += 3) thirds = cube.is_share(4 + classes + at);
  if (!thirds && extras % 2 != 0) return;
  head.task = Task::pose, head.extras = extras;
  head.point_values = thirds ? 3 : 2, head.points = extras / head.point_values;
}

/// What follows the class scores as the model or a second output tells it; false where they contradict the shapes.
bool tell_extras(const Cube& cube, std::span<const Tensor> outputs, const ModelHints& hints, Head& head) {
  for (size_t at = 0; at < outputs.size(); ++at) {
    const Dims& dims = outputs[at].dims();
    if (outputs[at].dtype() != DType::f32 || dims.rank() != 4 || dims[0] != cube.images) continue;
    if (dims[1] < 1 || cube.values - 4 - dims[1] < 1 || (!hints.task.empty() && hints.task != name(Task::segment)))
      continue;
    head.task = Task::segment, head.masks = at, head.extras = dims[1];
    head.from = hints.task.empty() ? "a second output of mask planes" : "the model's metadata: task=segment";
    return true;
  }
  if (hints.points > 0) {
    head.task = Task::pose, head.points = hints.points, head.point_values = hints.point_values;
    head.extras = hints.points * hints.point_values;
    head.from = "the model's metadata: kpt_shape";
    return cube.values - 4 - head.extras >= 1;
  }
  if (hints.task == name(Task::obb)) {
    head.task = Task::obb, head.extras = 1;
    head.from = "the model's metadata: task=obb";
  } else if (cube.planes && hints.task.empty()) {
    guess_extras(cube, static_cast<int64_t>(hints.labels), head);
  }
  return true;
}

std::optional<Head> recognise_cube(const Cube& cube, size_t output, std::span<const Tensor> outputs, int64_t grid,
                                   const ModelHints& hints) {
  const auto known = static_cast<int64_t>(hints.labels);
  Head head{HeadKind::yolov8, cube.planes, output, output, cube.count, 0};
  head.from = hints.task.empty() ? "the shape of the output" : "the model's metadata: task=" + hints.task;
  if (!tell_extras(cube, outputs, hints, head)) return std::nullopt;
  const int64_t values = cube.values - head.extras;
  if (cube.planes) {
    if (values < 5 || (known && values != 4 + known)) return std::nullopt;
    if (hints.task.empty() && !known && cube.count != grid && sizes_are_negative(cube)) return std::nullopt;
    head.classes = values - 4;
    return head;
  }
  const bool on_grid = cube.count == grid || cube.count == 3 * grid;
  if (values >= 5 && head.extras == 0 && !on_grid && (!known || values == 4 + known) && are_fractions(cube) &&
      !(values == 6 && cube.all(5, [](float x) { return x == std::round(x); }))) {
    head.kind = HeadKind::rtdetr, head.classes = values - 4;
    return head;
  }
  if (values == 6 && !on_grid) {
    head.kind = HeadKind::end_to_end;
    return head;
  }
  if (values < 5 || cube.count < fewest_rows) return std::nullopt;
  if (cube.count == grid && (known ? values == 4 + known : head.extras > 0)) {
    head.classes = values - 4;
    return head;
  }
  head.kind = cube.count == grid && head.extras == 0 && sizes_are_logarithms(cube) ? HeadKind::yolox : HeadKind::yolov5;
  head.classes = values - 5;
  return head;
}

}  // namespace

const char* name(HeadKind kind) {
  constexpr const char* names[] = {"yolov8", "yolov5", "yolox", "end_to_end", "ssd", "detr", "rtdetr", "labelled"};
  return names[static_cast<size_t>(kind)];
}

const char* name(Task task) {
  constexpr const char* names[] = {"detect", "segment", "pose", "obb"};
  return names[static_cast<size_t>(task)];
}

int64_t cells(int width, int height) {
  int64_t sum = 0;
  for (const int stride : strides) sum += static_cast<int64_t>(width / stride) * (height / stride);
  return sum;
}

ModelHints ModelHints::of(const std::map<std::string, std::string>& metadata, size_t labels,
                          std::vector<std::string> outputs) {
  ModelHints hints{labels, {}, 0, 0, std::move(outputs)};
  if (const auto task = metadata.find("task"); task != metadata.end())
    for (const Task one : {Task::detect, Task::segment, Task::pose, Task::obb})
      if (task->second == name(one)) hints.task = task->second;
  const auto shape = metadata.find("kpt_shape");
  if (shape == metadata.end() || (!hints.task.empty() && hints.task != name(Task::pose))) return hints;
  int64_t numbers[2] = {0, 0};
  const char *at = shape->second.data(), *const end = at + shape->second.size();
  for (int64_t& number : numbers) {
    while (at < end && (*at < '0' || *at > '9')) ++at;
    at = std::from_chars(at, end, number).ptr;
  }
  constexpr int64_t most_points = 10000;
  if (numbers[0] > 0 && numbers[0] <= most_points && (numbers[1] == 2 || numbers[1] == 3))
    hints.points = numbers[0], hints.point_values = numbers[1];
  return hints;
}

std::optional<Head> recognise(std::span<const Tensor> outputs, int input_width, int input_height,
                              const ModelHints& hints) {
  if (const std::optional<Head> head = recognise_pair(outputs, hints)) return head;
  if (const std::optional<Head> head = recognise_labelled(outputs, hints)) return head;
  if (are_pair(outputs)) return std::nullopt;
  // Segmentation exports have mask planes beside the boxes, training exports more after them.
  const size_t at = outputs.size() > 1 && outputs[0].dims().rank() == 4 ? 1 : 0;
  if (at >= outputs.size() || !is_f32_cube(outputs[at]) || rows_sum_to_one(outputs[at])) return std::nullopt;
  const int64_t grid = cells(input_width, input_height);
  return recognise_cube(Cube(outputs[at], grid), at, outputs, grid, hints);
}

std::string describe(const Head& head) {
  std::string text = std::string(name(head.kind)) + " " + name(head.task);
  std::string parts;
  const auto add = [&](int64_t count, const char* noun) {
    if (count > 0) parts += (parts.empty() ? "" : ", ") + counted(count, noun);
  };
  add(head.classes, "class");
  add(head.points, "key point");
  if (head.task == Task::segment) add(head.extras, "mask coefficient");
  return text + (parts.empty() ? "" : ": " + parts) + "; told by " + head.from;
}

}  // namespace tenon::vision
