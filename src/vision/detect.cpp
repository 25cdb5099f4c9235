// SPDX-License-Identifier: Apache-2.0
#include "vision/detect.h"

#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace tenon::vision {
namespace {

constexpr int strides[] = {8, 16, 32};
constexpr float largest_log_size = 16;  // a size in pixels is above it somewhere, a logarithm never

/// Cells of the three grids over an input, as stride-8, -16, -32 detectors lay them.
int64_t cells(int width, int height) {
  int64_t sum = 0;
  for (const int stride : strides) sum += static_cast<int64_t>(width / stride) * (height / stride);
  return sum;
}

bool is_f32_cube(const Tensor& tensor) {
  return tensor.dtype() == DType::f32 && tensor.dims().rank() == 3 && tensor.elements() > 0;
}

/// Whether columns 2 and 3 of [N,A,values] are logarithms of sizes, not pixels.
bool sizes_are_logarithms(const Tensor& tensor) {
  const int64_t values = tensor.dims()[2], rows = tensor.elements() / values;
  const float* data = tensor.data<float>();
  float largest = -INFINITY, least = INFINITY;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 2; column < 4; ++column) {
      largest = std::max(largest, data[row * values + column]);
      least = std::min(least, data[row * values + column]);
    }
  return least < 0 || largest < largest_log_size;
}

/// Rows that sum to one are class probabilities; boxes do so only by chance.
bool rows_sum_to_one(const Tensor& tensor) {
  const int64_t values = tensor.dims()[2], rows = std::min<int64_t>(tensor.dims()[1], 64);
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (int64_t column = 0; column < values; ++column) sum += tensor.data<float>()[row * values + column];
    if (std::abs(sum - 1) > 1e-2f) return false;
  }
  return true;
}

std::optional<Head> recognise_ssd(std::span<const Tensor> outputs) {
  if (!is_f32_cube(outputs[0]) || !is_f32_cube(outputs[1])) return std::nullopt;
  const Dims &first = outputs[0].dims(), &second = outputs[1].dims();
  if (first[0] != second[0] || first[1] != second[1]) return std::nullopt;
  const bool boxes_first = first[2] == 4 && !(second[2] == 4 && rows_sum_to_one(outputs[0]));
  const Dims &boxes = boxes_first ? first : second, &scores = boxes_first ? second : first;
  if (boxes[2] != 4 || scores[2] < 2) return std::nullopt;
  return Head{HeadKind::ssd, false,        boxes_first ? size_t{1} : size_t{0}, boxes_first ? size_t{0} : size_t{1},
              boxes[1],      scores[2] - 1};
}

float logistic(float value) { return 1 / (1 + std::exp(-value)); }

struct Collector {
  const Transform& transform;
  std::vector<Detection> found;

  /// Takes corners in input pixels.
  void add(int64_t class_id, float score, float x0, float y0, float x1, float y1) {
    if (!std::isfinite(x0) || !std::isfinite(y0) || !std::isfinite(x1) || !std::isfinite(y1)) return;
    found.push_back({static_cast<int>(class_id), score, {x0, y0, x1, y1}});
  }
  void add_centred(int64_t class_id, float score, const float box[4]) {
    add(class_id, score, box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2);
  }
};

struct Best {
  int64_t class_id = 0;
  float score = -INFINITY;
};

Best best_of(const float* scores, int64_t count) {
  Best best;
  for (int64_t at = 0; at < count; ++at)
    if (scores[at] > best.score) best = {at, scores[at]};
  return best;
}

// Reads one class plane after another: the candidates of a class lie side by side.
void from_planes(const Head& head, const float* data, float threshold, Collector& out) {
  const int64_t count = head.candidates;
  std::vector<Best> best(static_cast<size_t>(count));
  for (int64_t id = 0; id < head.classes; ++id) {
    const float* scores = data + (4 + id) * count;
    for (int64_t at = 0; at < count; ++at)
      if (scores[at] > best[static_cast<size_t>(at)].score) best[static_cast<size_t>(at)] = {id, scores[at]};
  }
  for (int64_t at = 0; at < count; ++at) {
    const Best& top = best[static_cast<size_t>(at)];
    if (!(top.score > threshold)) continue;
    const float box[4] = {data[at], data[count + at], data[2 * count + at], data[3 * count + at]};
    out.add_centred(top.class_id, top.score, box);
  }
}

void from_rows(const Head& head, const float* data, float threshold, Collector& out) {
  const int64_t skip = head.kind == HeadKind::yolov8 ? 4 : 5, values = skip + head.classes;
  for (int64_t at = 0; at < head.candidates; ++at, data += values) {
    const float object = skip == 5 ? data[4] : 1;
    if (!(object > threshold)) continue;
    const Best top = head.classes > 0 ? best_of(data + skip, head.classes) : Best{0, 1};
    if (object * top.score > threshold) out.add_centred(top.class_id, object * top.score, data);
  }
}

void from_grid(const Head& head, const float* data, float threshold, Collector& out) {
  const int64_t values = 5 + head.classes;
  // Exporters differ on whether scores pass the logistic function inside the network.
  bool logits = false;
  for (int64_t at = 0; at < head.candidates && !logits; ++at)
    logits = data[at * values + 4] < 0 || data[at * values + 4] > 1;
  const auto probability = [&](float value) { return logits ? logistic(value) : value; };
  for (const int stride : strides)
    for (int y = 0; y < out.transform.input_height / stride; ++y)
      for (int x = 0; x < out.transform.input_width / stride; ++x, data += values) {
        const float object = probability(data[4]);
        if (!(object > threshold)) continue;
        const Best top = head.classes > 0 ? best_of(data + 5, head.classes) : Best{0, logits ? INFINITY : 1};
        const float score = object * probability(top.score);
        if (!(score > threshold)) continue;
        const auto step = static_cast<float>(stride);
        const float box[4] = {(data[0] + static_cast<float>(x)) * step, (data[1] + static_cast<float>(y)) * step,
                              std::exp(data[2]) * step, std::exp(data[3]) * step};
        out.add_centred(top.class_id, score, box);
      }
}

void from_ssd(const Head& head, const float* scores, const float* boxes, float threshold, Collector& out) {
  const auto width = static_cast<float>(out.transform.input_width),
             height = static_cast<float>(out.transform.input_height);
  for (int64_t at = 0; at < head.candidates; ++at, scores += head.classes + 1, boxes += 4) {
    const Best top = best_of(scores + 1, head.classes);
    if (top.score > threshold)
      out.add(top.class_id, top.score, boxes[0] * width, boxes[1] * height, boxes[2] * width, boxes[3] * height);
  }
}

void from_end_to_end(const Head& head, const float* data, float threshold, Collector& out) {
  for (int64_t at = 0; at < head.candidates; ++at, data += 6)
    if (data[4] > threshold && data[5] >= 0 && data[5] < 1e6f)
      out.add(static_cast<int64_t>(data[5]), data[4], data[0], data[1], data[2], data[3]);
}

void to_source(std::vector<Detection>& found, const Transform& transform) {
  const auto clip = [](double value, int limit) {
    return static_cast<float>(std::clamp(value, 0.0, static_cast<double>(limit)));
  };
  for (Detection& detection : found)
    for (int corner = 0; corner < 4; corner += 2) {
      detection.box[corner] = clip(transform.source_x(detection.box[corner]), transform.source_width);
      detection.box[corner + 1] = clip(transform.source_y(detection.box[corner + 1]), transform.source_height);
    }
}

int64_t values_of(const Head& head) {
  return head.kind == HeadKind::end_to_end ? 6 : head.classes + (head.kind == HeadKind::yolov8 ? 4 : 5);
}

void check(const Head& head, std::span<const Tensor> outputs, int64_t image) {
  const auto expect = [&](size_t at, const Dims& dims) {
    if (at >= outputs.size() || outputs[at].dtype() != DType::f32 || outputs[at].dims() != dims || image < 0 ||
        image >= dims[0])
      throw Error(
          Code::unsupported, "the outputs are not those of the detection head",
          {.where = "output " + std::to_string(at),
           .why = std::string(name(head.kind)) + " needs f32 " + dims.str() + " and an image inside the batch"});
  };
  const int64_t batch = outputs.empty() || outputs[0].dims().rank() == 0 ? 0 : outputs[0].dims()[0];
  if (head.kind == HeadKind::ssd) {
    expect(head.scores, {batch, head.candidates, head.classes + 1});
    expect(head.boxes, {batch, head.candidates, 4});
  } else {
    const int64_t values = values_of(head);
    expect(head.scores,
           head.candidates_last ? Dims{batch, values, head.candidates} : Dims{batch, head.candidates, values});
  }
}

}  // namespace

const char* name(HeadKind kind) {
  constexpr const char* names[] = {"yolov8", "yolov5", "yolox", "end_to_end", "ssd"};
  return names[static_cast<size_t>(kind)];
}

std::optional<Head> recognise(std::span<const Tensor> outputs, int input_width, int input_height, size_t labels) {
  if (outputs.size() == 2)
    if (const std::optional<Head> head = recognise_ssd(outputs)) return head;
  // Segmentation and training exports add outputs after the boxes.
  if (outputs.empty() || !is_f32_cube(outputs[0])) return std::nullopt;
  const Dims& dims = outputs[0].dims();
  const int64_t grid = cells(input_width, input_height), known = static_cast<int64_t>(labels);
  if (dims[2] > dims[1]) {
    if (dims[1] < 5 || (known && dims[1] != 4 + known)) return std::nullopt;
    return Head{HeadKind::yolov8, true, 0, 0, dims[2], dims[1] - 4};
  }
  const int64_t count = dims[1], values = dims[2];
  if (values == 6 && count != grid && count != 3 * grid) return Head{HeadKind::end_to_end, false, 0, 0, count, 0};
  if (values < 5 || count < 64) return std::nullopt;
  if (count == grid && values == 4 + known && known) return Head{HeadKind::yolov8, false, 0, 0, count, values - 4};
  const bool raw = count == grid && sizes_are_logarithms(outputs[0]);
  return Head{raw ? HeadKind::yolox : HeadKind::yolov5, false, 0, 0, count, values - 5};
}

std::vector<Detection> detect(const Head& head, std::span<const Tensor> outputs, int64_t image,
                              const Transform& transform, const DetectOptions& options) {
  check(head, outputs, image);
  if (head.kind == HeadKind::yolox && head.candidates != cells(transform.input_width, transform.input_height))
    throw Error(Code::unsupported, "the outputs are not those of the detection head",
                {.why = "the grid does not cover the input"});
  Collector out{transform, {}};
  const auto data = [&](size_t at) {
    return outputs[at].data<float>() + image * (outputs[at].elements() / outputs[at].dims()[0]);
  };
  switch (head.kind) {
    case HeadKind::yolov8:
      head.candidates_last ? from_planes(head, data(0), options.confidence, out)
                           : from_rows(head, data(0), options.confidence, out);
      break;
    case HeadKind::yolov5: from_rows(head, data(0), options.confidence, out); break;
    case HeadKind::yolox: from_grid(head, data(0), options.confidence, out); break;
    case HeadKind::end_to_end: from_end_to_end(head, data(0), options.confidence, out); break;
    case HeadKind::ssd: from_ssd(head, data(head.scores), data(head.boxes), options.confidence, out); break;
  }
  const float iou = head.kind == HeadKind::end_to_end ? 1.0f : options.iou;
  if (!options.classes.empty())
    std::erase_if(out.found, [&](const Detection& one) {
      return std::find(options.classes.begin(), options.classes.end(), one.class_id) == options.classes.end();
    });
  std::vector<Detection> kept = suppress(std::move(out.found), iou, options.max_detections, options.agnostic);
  to_source(kept, transform);
  return kept;
}

}  // namespace tenon::vision
