// SPDX-License-Identifier: Apache-2.0
#include "vision/detect.h"

#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "vision/parts.h"
#include "vision/rotated.h"

namespace tenon::vision {
namespace {

constexpr int strides[] = {8, 16, 32};
constexpr float largest_fraction = 1.5f;  // of the input; a corner in pixels is above it somewhere

float logistic(float value) { return 1 / (1 + std::exp(-value)); }

struct Collector {
  const Transform& transform;
  std::vector<Detection> found;

  /// Takes corners in input pixels.
  void add(int64_t candidate, int64_t class_id, float score, float x0, float y0, float x1, float y1) {
    if (!std::isfinite(x0) || !std::isfinite(y0) || !std::isfinite(x1) || !std::isfinite(y1)) return;
    found.push_back({static_cast<int>(class_id), score, {x0, y0, x1, y1}, candidate, {}, {}, {}});
  }
  void add_centred(int64_t candidate, int64_t class_id, float score, const float box[4]) {
    add(candidate, class_id, score, box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2);
  }
  /// Takes centre and size as fractions of the input.
  void add_fractions(int64_t candidate, int64_t class_id, float score, const float box[4]) {
    const auto width = static_cast<float>(transform.input_width), height = static_cast<float>(transform.input_height);
    const float pixels[4] = {box[0] * width, box[1] * height, box[2] * width, box[3] * height};
    add_centred(candidate, class_id, score, pixels);
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
    out.add_centred(at, top.class_id, top.score, box);
  }
}

void from_rows(const Head& head, const float* data, float threshold, Collector& out) {
  const int64_t skip = head.kind == HeadKind::yolov5 ? 5 : 4, values = skip + head.classes + head.extras;
  for (int64_t at = 0; at < head.candidates; ++at, data += values) {
    const float object = skip == 5 ? data[4] : 1;
    if (!(object > threshold)) continue;
    const Best top = head.classes > 0 ? best_of(data + skip, head.classes) : Best{0, 1};
    if (!(object * top.score > threshold)) continue;
    if (head.kind == HeadKind::rtdetr) out.add_fractions(at, top.class_id, top.score, data);
    else out.add_centred(at, top.class_id, object * top.score, data);
  }
}

void from_grid(const Head& head, const float* data, float threshold, Collector& out) {
  const int64_t values = 5 + head.classes;
  // Exporters differ on whether scores pass the logistic function inside the network.
  bool logits = false;
  for (int64_t at = 0; at < head.candidates && !logits; ++at)
    logits = data[at * values + 4] < 0 || data[at * values + 4] > 1;
  const auto probability = [&](float value) { return logits ? logistic(value) : value; };
  int64_t at = 0;
  for (const int stride : strides)
    for (int y = 0; y < out.transform.input_height / stride; ++y)
      for (int x = 0; x < out.transform.input_width / stride; ++x, ++at, data += values) {
        const float object = probability(data[4]);
        if (!(object > threshold)) continue;
        const Best top = head.classes > 0 ? best_of(data + 5, head.classes) : Best{0, logits ? INFINITY : 1};
        const float score = object * probability(top.score);
        if (!(score > threshold)) continue;
        const auto step = static_cast<float>(stride);
        const float box[4] = {(data[0] + static_cast<float>(x)) * step, (data[1] + static_cast<float>(y)) * step,
                              std::exp(data[2]) * step, std::exp(data[3]) * step};
        out.add_centred(at, top.class_id, score, box);
      }
}

void from_ssd(const Head& head, const float* scores, const float* boxes, float threshold, Collector& out) {
  const auto width = static_cast<float>(out.transform.input_width),
             height = static_cast<float>(out.transform.input_height);
  for (int64_t at = 0; at < head.candidates; ++at, scores += head.classes + 1, boxes += 4) {
    const Best top = best_of(scores + 1, head.classes);
    if (top.score > threshold)
      out.add(at, top.class_id, top.score, boxes[0] * width, boxes[1] * height, boxes[2] * width, boxes[3] * height);
  }
}

// With "no object" the logits are those of one choice (softmax), without it of one choice for each class.
void from_detr(const Head& head, const float* logits, const float* boxes, float threshold, Collector& out) {
  const int64_t values = head.classes + head.no_object;
  for (int64_t at = 0; at < head.candidates; ++at, logits += values, boxes += 4) {
    const Best top = best_of(logits, head.classes);
    float score = logistic(top.score);
    if (head.no_object) {
      const float most = std::max(top.score, logits[values - 1]);
      float sum = 0;
      for (int64_t id = 0; id < values; ++id) sum += std::exp(logits[id] - most);
      score = std::exp(top.score - most) / sum;
    }
    if (score > threshold) out.add_fractions(at, top.class_id, score, boxes);
  }
}

void from_end_to_end(const Head& head, const float* data, float threshold, Collector& out) {
  for (int64_t at = 0; at < head.candidates; ++at, data += 6 + head.extras) {
    if (!(data[4] > threshold && data[5] >= 0 && data[5] < 1e6f)) continue;
    const auto class_id = static_cast<int64_t>(data[5]);
    if (head.task == Task::obb) out.add_centred(at, class_id, data[4], data);
    else out.add(at, class_id, data[4], data[0], data[1], data[2], data[3]);
  }
}

int64_t label_at(const Tensor& labels, int64_t at) {
  return labels.dtype() == DType::i64 ? labels.data<int64_t>()[at] : labels.data<int32_t>()[at];
}

void from_labelled(const Head& head, std::span<const Tensor> outputs, int64_t image, float threshold, Collector& out) {
  const Tensor &labels = outputs[head.labels], &all = outputs[head.boxes];
  const int64_t count = labels.dims().rank() == 0 ? 0 : labels.dims().back(), first = image * count;
  const float *scores = outputs[head.scores].data<float>() + first, *boxes = all.data<float>() + first * 4;
  const bool fractions = std::all_of(boxes, boxes + count * 4, [](float x) { return x <= largest_fraction; });
  const float width = fractions ? static_cast<float>(out.transform.input_width) : 1,
              height = fractions ? static_cast<float>(out.transform.input_height) : 1;
  for (int64_t at = 0; at < count; ++at, boxes += 4)
    if (scores[at] > threshold)
      out.add(at, label_at(labels, first + at), scores[at], boxes[0] * width, boxes[1] * height, boxes[2] * width,
              boxes[3] * height);
}

/// Oriented boxes and what encloses them, in the pixels of the input.
void turn(std::vector<Detection>& found, const Head& head, const float* data) {
  for (Detection& one : found) {
    const Extras extras(head, data, one.candidate);
    const float* const box = one.box;
    one.rotated = Rotated{(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1], extras[0]};
  }
  std::erase_if(found, [](const Detection& one) { return !std::isfinite(one.rotated->angle); });
}

void to_source(std::vector<Detection>& found, const Transform& transform) {
  const auto clip = [](double value, int limit) {
    return static_cast<float>(std::clamp(value, 0.0, static_cast<double>(limit)));
  };
  for (Detection& detection : found) {
    if (detection.rotated) {
      const auto around = corners(*detection.rotated);
      for (size_t at = 0; at < around.size(); ++at) {
        float* const box = detection.box;
        box[0] = at == 0 ? around[at].x : std::min(box[0], around[at].x);
        box[1] = at == 0 ? around[at].y : std::min(box[1], around[at].y);
        box[2] = at == 0 ? around[at].x : std::max(box[2], around[at].x);
        box[3] = at == 0 ? around[at].y : std::max(box[3], around[at].y);
      }
      detection.rotated = to_source(*detection.rotated, transform);
    }
    for (int corner = 0; corner < 4; corner += 2) {
      detection.box[corner] = clip(transform.source_x(detection.box[corner]), transform.source_width);
      detection.box[corner + 1] = clip(transform.source_y(detection.box[corner + 1]), transform.source_height);
    }
  }
}

void check(const Head& head, std::span<const Tensor> outputs, int64_t image) {
  const auto refuse = [&](size_t at, const std::string& wanted) {
    throw Error(Code::unsupported, "the outputs are not those of the detection head",
                {.where = "output " + std::to_string(at),
                 .why = std::string(name(head.kind)) + " needs " + wanted + " and an image inside the batch"});
  };
  const auto expect = [&](size_t at, const Dims& dims) {
    if (at >= outputs.size() || outputs[at].dtype() != DType::f32 || outputs[at].dims() != dims || image < 0 ||
        image >= dims[0])
      refuse(at, "f32 " + dims.str());
  };
  const int64_t batch = outputs.empty() || outputs[0].dims().rank() == 0 ? 0 : outputs[0].dims()[0];
  if (head.kind == HeadKind::labelled) {
    const size_t last = std::max({head.boxes, head.labels, head.scores});
    if (last >= outputs.size()) refuse(last, "three outputs");
    Dims list = outputs[head.labels].dims();
    if (outputs[head.labels].dtype() != DType::i64 && outputs[head.labels].dtype() != DType::i32)
      refuse(head.labels, "labels as integers");
    if (outputs[head.scores].dtype() != DType::f32 || outputs[head.scores].dims() != list || image < 0 ||
        image >= (list.rank() == 2 ? list[0] : 1))
      refuse(head.scores, "f32 " + list.str());
    list.push_back(4);
    if (outputs[head.boxes].dtype() != DType::f32 || outputs[head.boxes].dims() != list)
      refuse(head.boxes, "f32 " + list.str());
  } else if (head.kind == HeadKind::ssd || head.kind == HeadKind::detr) {
    expect(head.scores, {batch, head.candidates,
                         head.classes + (head.kind == HeadKind::ssd ? 1 : static_cast<int64_t>(head.no_object))});
    expect(head.boxes, {batch, head.candidates, 4});
  } else {
    const int64_t values = values_of(head);
    expect(head.scores,
           head.candidates_last ? Dims{batch, values, head.candidates} : Dims{batch, head.candidates, values});
  }
  check_parts(head, outputs);
}

void collect(const Head& head, std::span<const Tensor> outputs, int64_t image, float threshold, Collector& out) {
  const auto data = [&](size_t at) {
    return outputs[at].data<float>() + image * (outputs[at].elements() / outputs[at].dims()[0]);
  };
  switch (head.kind) {
    case HeadKind::yolov8:
    case HeadKind::yolov5:
    case HeadKind::rtdetr:
      head.candidates_last ? from_planes(head, data(head.scores), threshold, out)
                           : from_rows(head, data(head.scores), threshold, out);
      break;
    case HeadKind::yolox: from_grid(head, data(head.scores), threshold, out); break;
    case HeadKind::end_to_end: from_end_to_end(head, data(head.scores), threshold, out); break;
    case HeadKind::ssd: from_ssd(head, data(head.scores), data(head.boxes), threshold, out); break;
    case HeadKind::detr: from_detr(head, data(head.scores), data(head.boxes), threshold, out); break;
    case HeadKind::labelled: from_labelled(head, outputs, image, threshold, out); break;
  }
  if (head.task == Task::obb) turn(out.found, head, data(head.scores));
}

bool needs_nms(HeadKind kind) {
  return kind == HeadKind::yolov8 || kind == HeadKind::yolov5 || kind == HeadKind::yolox || kind == HeadKind::ssd;
}

}  // namespace

std::vector<Detection> detect(const Head& head, std::span<const Tensor> outputs, int64_t image,
                              const Transform& transform, const DetectOptions& options) {
  check(head, outputs, image);
  if (head.kind == HeadKind::yolox && head.candidates != cells(transform.input_width, transform.input_height))
    throw Error(Code::unsupported, "the outputs are not those of the detection head",
                {.why = "the grid does not cover the input"});
  Collector out{transform, {}};
  collect(head, outputs, image, options.confidence, out);
  if (!options.classes.empty())
    std::erase_if(out.found, [&](const Detection& one) {
      return std::find(options.classes.begin(), options.classes.end(), one.class_id) == options.classes.end();
    });
  const float iou = needs_nms(head.kind) ? options.iou : 1.0f;
  std::vector<Detection> kept = nms(std::move(out.found), iou, options.max_detections, options.agnostic);
  to_source(kept, transform);
  if (!options.boxes_alone) add_parts(head, outputs, image, transform, kept);
  return kept;
}

}  // namespace tenon::vision
