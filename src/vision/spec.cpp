// SPDX-License-Identifier: Apache-2.0
#include "vision/spec.h"

#include <tenon/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace tenon::vision {
namespace {

constexpr int max_side = 1 << 14;

struct Word {
  std::string_view key, value;
};

template <class Value>
struct Choice {
  std::string_view word;
  Value value;
};
constexpr Choice<Fit> fits[] = {{"letterbox", Fit::letterbox},
                                {"resize", Fit::resize},
                                {"center_crop", Fit::center_crop},
                                {"centre_crop", Fit::center_crop}};
constexpr Choice<Anchor> anchors[] = {{"center", Anchor::center}, {"top_left", Anchor::top_left}};
constexpr Choice<Colour> colours[] = {
    {"rgb", Colour::rgb}, {"bgr", Colour::bgr}, {"grey", Colour::grey}, {"gray", Colour::grey}};
constexpr Choice<Layout> layouts[] = {{"nchw", Layout::nchw}, {"nhwc", Layout::nhwc}};
constexpr Choice<Interpolation> interpolations[] = {{"cv_linear", Interpolation::cv_linear},
                                                    {"antialias", Interpolation::antialias},
                                                    {"nearest", Interpolation::nearest}};
constexpr Choice<bool> switches[] = {{"yes", true}, {"no", false}};

struct Preset {
  std::string_view name, words;
};
constexpr Preset presets[] = {
    {"yolo", "letterbox"},
    {"yolox", "letterbox,anchor=top_left,colour=bgr,scale=1"},
    {"imagenet_resize", "resize,interpolation=antialias,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"},
    {"imagenet", "center_crop,interpolation=antialias,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"},
};

[[noreturn]] void refuse(const Word& word, std::string why, std::string hint = {}) {
  std::string where(word.key);
  if (!word.value.empty()) where.append("=").append(word.value);
  throw Error(Code::usage, "cannot use this preprocessing",
              {.where = where, .why = std::move(why), .hint = std::move(hint)});
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int integer(const Word& word, int low, int high) {
  const std::optional<int> value = number<int>(word.value);
  if (!value || *value < low || *value > high)
    refuse(word, "needs an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return *value;
}

float real(const Word& word, std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<double> over = number<double>(text.substr(0, slash));
  const std::optional<double> under =
      slash == std::string_view::npos ? std::optional(1.0) : number<double>(text.substr(slash + 1));
  const float value = over && under ? static_cast<float>(*over / *under) : NAN;
  if (!std::isfinite(value)) refuse(word, "needs a number or a fraction, as in 0.5 or 1/255");
  return value;
}

std::array<float, 3> reals(const Word& word) {
  const std::vector<std::string_view> parts = split(word.value, ':');
  if (parts.size() == 1) {
    const float value = real(word, parts[0]);
    return {value, value, value};
  }
  if (parts.size() != 3) refuse(word, "needs one number, or three with ':' between them");
  return {real(word, parts[0]), real(word, parts[1]), real(word, parts[2])};
}

template <class Value, size_t count>
Value choice(const Word& word, const Choice<Value> (&choices)[count]) {
  std::string known;
  for (const Choice<Value>& candidate : choices) {
    if (candidate.word == word.value) return candidate.value;
    known.append(known.empty() ? "" : ", ").append(candidate.word);
  }
  refuse(word, "unknown value", "one of: " + known);
}

template <class Value, size_t count>
std::string_view word_for(Value value, const Choice<Value> (&choices)[count]) {
  for (const Choice<Value>& candidate : choices)
    if (candidate.value == value) return candidate.word;
  return {};
}

void read_size(Spec& spec, const Word& word) {
  const size_t cross = word.value.find('x');
  const auto side = [&](std::string_view text) {
    const std::optional<int> value = number<int>(text);
    if (!value || *value < 1 || *value > max_side)
      refuse(word, "needs WIDTHxHEIGHT, each from 1 to " + std::to_string(max_side));
    return *value;
  };
  spec.width = side(word.value.substr(0, cross));
  spec.height = cross == std::string_view::npos ? spec.width : side(word.value.substr(cross + 1));
}

void apply(Spec& spec, const Word& word);

void apply_all(Spec& spec, std::string_view text) {
  for (std::string_view part : split(text, ',')) {
    part = trimmed(part);
    const size_t equals = part.find('=');
    Word word{part.substr(0, equals), equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1)};
    apply(spec, word);
  }
}

void apply(Spec& spec, const Word& word) {
  for (const Preset& preset : presets)
    if (word.key == preset.name) {
      spec = Spec();
      apply_all(spec, preset.words);
      if (!word.value.empty()) read_size(spec, word);
      return;
    }
  for (const Choice<Fit>& fit : fits)
    if (word.key == fit.word) {
      spec.fit = fit.value;
      if (!word.value.empty()) read_size(spec, word);
      return;
    }
  if (word.key == "size") return read_size(spec, word);
  if (word.key == "short") spec.short_side = integer(word, 1, max_side);
  else if (word.key == "anchor") spec.anchor = choice(word, anchors);
  else if (word.key == "scaleup") spec.scale_up = choice(word, switches);
  else if (word.key == "colour" || word.key == "color") spec.colour = choice(word, colours);
  else if (word.key == "scale") spec.scale = real(word, word.value);
  else if (word.key == "mean") spec.mean = reals(word);
  else if (word.key == "std") spec.std = reals(word);
  else if (word.key == "pad") spec.pad = integer(word, 0, 255);
  else if (word.key == "interpolation") spec.interpolation = choice(word, interpolations);
  else if (word.key == "layout") spec.layout = choice(word, layouts);
  else
    refuse(word, "unknown word",
           "a preset (yolo, yolox, imagenet, imagenet_resize) or letterbox, resize, center_crop, size, short, anchor, "
           "scaleup, colour, scale, mean, std, pad, interpolation, layout");
  for (const float value : spec.std)
    if (value == 0) refuse(word, "std must not be 0");
}

std::string text_of(float value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string text_of(const std::array<float, 3>& values) {
  if (values[0] == values[1] && values[1] == values[2]) return text_of(values[0]);
  return text_of(values[0]) + ":" + text_of(values[1]) + ":" + text_of(values[2]);
}

std::string fraction(float value) {
  const double below = std::round(1.0 / value);
  const bool exact = below > 1 && below < 1e6 && static_cast<float>(1.0 / below) == value;
  std::string text = text_of(value);
  if (exact && text.size() > 5) text.assign("1/").append(std::to_string(static_cast<int>(below)));
  return text;
}

}  // namespace

std::string Spec::str() const {
  const Spec plain;
  std::string text(word_for(fit, fits));
  if (width > 0) text.append("=").append(std::to_string(width)).append("x").append(std::to_string(height));
  const auto add = [&](std::string_view key, std::string_view value) {
    text.append(",").append(key).append("=").append(value);
  };
  if (short_side != plain.short_side) add("short", std::to_string(short_side));
  if (anchor != plain.anchor) add("anchor", word_for(anchor, anchors));
  if (scale_up != plain.scale_up) add("scaleup", word_for(scale_up, switches));
  add("colour", word_for(colour, colours));
  add("scale", fraction(scale));
  if (mean != plain.mean) add("mean", text_of(mean));
  if (std != plain.std) add("std", text_of(std));
  if (fit == Fit::letterbox || pad != plain.pad) add("pad", std::to_string(pad));
  add("interpolation", word_for(interpolation, interpolations));
  add("layout", word_for(layout, layouts));
  return text;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  if (trimmed(text).empty())
    refuse({"(empty)", ""}, "nothing is given", "a preset (yolo, yolox, imagenet, imagenet_resize) or key=value words");
  apply_all(spec, text);
  return spec;
}

std::string told_spec(const std::map<std::string, std::string>& metadata) {
  const auto told = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string_view() : std::string_view(found->second);
  };
  if (!told(spec_key).empty()) return std::string(told(spec_key));
  if (told("author") != "Ultralytics") return "";
  const std::string_view task = told("task"), size = told("imgsz");
  if (task == "detect" || task == "segment" || task == "pose" || task == "obb") return "yolo";
  const size_t digit = size.find_first_of("123456789");
  if (task != "classify" || digit == size.npos) return "";
  // The shorter side becomes the crop's, colours stay as they are.
  const size_t end = std::min(size.find_first_not_of("0123456789", digit), digit + 5);
  return "center_crop,interpolation=antialias,short=" + std::string(size.substr(digit, end - digit));
}

Spec resolve(Spec spec, const Dims& input) {
  const auto refuse_dims = [&](std::string why) {
    throw Error(Code::usage, "the preprocessing does not fit the model's input",
                {.where = input.str(), .why = std::move(why)});
  };
  if (input.rank() != 4) refuse_dims("an image input has 4 dimensions");
  const auto is_colours = [](int64_t size) { return size == 3 || size == 1; };
  const bool last = is_colours(input[3]) && !is_colours(input[1]);
  if (!last && !is_colours(input[1]) && input[1] > 0)
    refuse_dims("neither dimension 1 nor 3 is 3 (colours) or 1 (grey)");
  const int64_t channels = input[last ? 3 : 1];
  if (channels == 1) spec.colour = Colour::grey;
  // One mean and deviation for the one channel: those of the three, averaged.
  if (channels == 1) spec.mean.fill((spec.mean[0] + spec.mean[1] + spec.mean[2]) / 3);
  if (channels == 1) spec.std.fill((spec.std[0] + spec.std[1] + spec.std[2]) / 3);
  if (channels == 3 && spec.colour == Colour::grey) refuse_dims("it has 3 colours, and the preprocessing is grey");
  spec.layout = last ? Layout::nhwc : Layout::nchw;
  const auto settle = [&](int& side, int64_t given, const char* name) {
    if (given < 1) return;
    if (given > max_side) refuse_dims(std::string(name) + " is above " + std::to_string(max_side));
    if (side != 0 && side != given)
      refuse_dims(std::string(name) + " is " + std::to_string(given) + " there, and " + std::to_string(side) +
                  " in the preprocessing");
    side = static_cast<int>(given);
  };
  settle(spec.height, input[last ? 1 : 2], "height");
  settle(spec.width, input[last ? 2 : 3], "width");
  return spec;
}

}  // namespace tenon::vision
