// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tenon::vision {

enum class Fit : uint8_t {
  letterbox,    ///< keep the proportions, fill the rest with the pad value
  resize,       ///< stretch to the size
  center_crop,  ///< shorter side to `short_side`, then the middle
};
enum class Anchor : uint8_t {
  center,    ///< image in the middle, its size rounded half to even (Ultralytics)
  top_left,  ///< image in the corner, its size truncated (YOLOX)
};
enum class Colour : uint8_t { rgb, bgr, grey };
enum class Layout : uint8_t { nchw, nhwc };
enum class Interpolation : uint8_t {
  cv_linear,  ///< OpenCV 4 INTER_LINEAR on 8-bit images, bit for bit
  antialias,  ///< Pillow's BILINEAR on 8-bit images, bit for bit: a triangle as wide as the reduction
  nearest,    ///< OpenCV 4 INTER_NEAREST
};

/// How an image becomes a network's input: geometry, then (pixel * scale - mean) / std per channel.
struct Spec {
  Fit fit = Fit::letterbox;
  int width = 0, height = 0;  ///< of the network's input; 0 until resolve() takes them from the model
  int short_side = 0;         ///< for center_crop; 0 is 8/7 of the crop's longer side (256 for 224)
  Anchor anchor = Anchor::center;
  bool scale_up = true;  ///< whether a letterbox enlarges small images
  Colour colour = Colour::rgb;
  float scale = static_cast<float>(1.0 / 255);
  std::array<float, 3> mean{0, 0, 0}, std{1, 1, 1};  ///< in the order of the colours that the network sees
  int pad = 114;                                     ///< value of the border, 0..255, before scaling
  Interpolation interpolation = Interpolation::cv_linear;
  Layout layout = Layout::nchw;

  int channels() const { return colour == Colour::grey ? 1 : 3; }
  bool operator==(const Spec&) const = default;
  /// The text form; parse_spec gives the same value back.
  std::string str() const;
};

/// The name of a model's metadata that says how images become its input, as text for parse_spec.
inline constexpr const char* spec_key = "tenon.preprocess";

/// Reads a preset, "key=value" words, or both, separated by commas: "yolo", "yolox,size=416x416",
/// "letterbox=640x640,scale=1/255,colour=rgb", "center_crop=224x224,short=256,mean=0.5:0.5:0.5". Sizes are
/// WIDTHxHEIGHT. Presets: yolo (Ultralytics), yolox, imagenet (torchvision), imagenet_resize (the same without cutting,
/// as for segmentation). Throws Error(usage) naming the word.
Spec parse_spec(std::string_view text);

/// What a model's metadata says of it: text under spec_key, or what Ultralytics' exporter implies by "author", "task"
/// and "imgsz"; "" where it says nothing.
std::string told_spec(const std::map<std::string, std::string>& metadata);

/// Fills size, layout and whether the input is grey from the dims of a model's input: [N,3,H,W], [N,H,W,3], or with 1
/// in the place of 3; sizes below 1 are free. Throws Error(usage) where the spec asks for another size or the dims are
/// not an image's.
Spec resolve(Spec spec, const Dims& input);

}  // namespace tenon::vision
