// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::vision {

/// What a detector's outputs mean. A is the number of candidates, C of classes, E of what follows the class scores:
/// coefficients of a mask, key points, or an angle.
enum class HeadKind : uint8_t {
  yolov8,      ///< [N,4+C+E,A] or [N,A,4+C+E]: centre and size in input pixels, class scores (YOLOv8, v9, 11)
  yolov5,      ///< [N,A,5+C+E]: centre and size in input pixels, objectness, class scores (YOLOv5, v7; YOLOX with its
               ///< decoder)
  yolox,       ///< [N,A,5+C]: the same on the raw grid: (xy + cell) * stride, exp(wh) * stride
  end_to_end,  ///< [N,A,6+E]: corners in input pixels, score, class; already without duplicates (YOLOv10); centre and
               ///< size where an angle follows
  ssd,         ///< scores [N,A,C] with background as class 0, and corners [N,A,4] as fractions of the input (UltraFace)
  detr,        ///< logits [N,A,C], or [N,A,C+1] with "no object" last, and centre and size [N,A,4] as fractions
  rtdetr,      ///< [N,A,4+C]: centre and size as fractions, class scores; already without duplicates (RT-DETR)
  labelled,    ///< boxes [A,4] or [N,A,4], labels [A] or [N,A], scores alike: corners in input pixels or as fractions
               ///< (torchvision; RT-DETR with its postprocessing)
};
const char* name(HeadKind kind);

/// What is found beside boxes.
enum class Task : uint8_t { detect, segment, pose, obb };
const char* name(Task task);

struct Head {
  HeadKind kind = HeadKind::yolov8;
  bool candidates_last = true;   ///< [.., A] rather than [.., A, values]
  size_t scores = 0, boxes = 0;  ///< which outputs hold them; the same one for most
  int64_t candidates = 0, classes = 0;
  Task task = Task::detect;
  size_t labels = 0;                     ///< which output holds them, of `labelled`
  size_t masks = 0;                      ///< which output holds the planes or the masks, for Task::segment
  size_t keys = 0;                       ///< which output holds key points, of `labelled`
  int64_t extras = 0;                    ///< E
  int64_t points = 0, point_values = 0;  ///< key points, and 2 or 3 values for each
  bool no_object = false;                ///< the last logit of `detr` is "no object"
  std::string from;                      ///< what told it, in words
};

/// What a model says of itself.
struct ModelHints {
  size_t labels = 0;                     ///< class names; 0 where unknown
  std::string task;                      ///< "detect", "segment", "pose", "obb"; "" where unknown
  int64_t points = 0, point_values = 0;  ///< as "kpt_shape" tells
  std::vector<std::string> outputs;      ///< their names

  /// As Ultralytics' exporter writes it: "task" and "kpt_shape". What cannot be read is left out.
  static ModelHints of(const std::map<std::string, std::string>& metadata, size_t labels,
                       std::vector<std::string> outputs = {});
};

/// Recognises a head by what the model says, by the shapes of its outputs and, where those leave a choice, by their
/// values. Nothing where the outputs are not a detector's.
std::optional<Head> recognise(std::span<const Tensor> outputs, int input_width, int input_height,
                              const ModelHints& hints = {});

/// Cells of the three grids over an input, as stride-8, -16, -32 detectors lay them.
int64_t cells(int width, int height);

/// "yolov8 pose: 1 class, 17 key points, told by …".
std::string describe(const Head& head);

}  // namespace tenon::vision
