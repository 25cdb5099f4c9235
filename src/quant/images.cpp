// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "quant/audit.h"

namespace tenon::quant {
namespace {

constexpr int cells = 8;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Pearson's correlation of two grids; 1 where either is flat.
double correlation(const Image& a, const Image& b) {
  double mean_a = 0, mean_b = 0;
  for (size_t at = 0; at < a.grid.size(); ++at) mean_a += a.grid[at] / 64.0, mean_b += b.grid[at] / 64.0;
  double ab = 0, aa = 0, bb = 0;
  for (size_t at = 0; at < a.grid.size(); ++at) {
    const double x = a.grid[at] - mean_a, y = b.grid[at] - mean_b;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 1;
}

/// From 0 for black to 1 for white, for the usual ways to scale images: 0..1, 0..255, 0..255 less a mean, -1..1,
/// ImageNet's.
double brightness(double mean, double low, double high) {
  if (low >= -1e-3) return high <= 1.5 ? mean : mean / 255;
  if (high - low > 20) return std::clamp((mean + 118) / 255, 0.0, 1.0);
  if (low >= -1.01 && high <= 1.01) return (mean + 1) / 2;
  return std::clamp(mean * 0.225 + 0.45, 0.0, 1.0);
}

/// By how many deviations the best score is above the mean. Of probabilities their logarithms are scores, as they were
/// before the softmax but for a constant.
double standing_out(std::span<const float> scores) {
  constexpr double least = 1e-9;
  const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
  const bool shares = std::fabs(total - 1) < 1e-3 && *std::min_element(scores.begin(), scores.end()) >= 0;
  double sum = 0, squares = 0, most = -INFINITY;
  for (const float score : scores) {
    const double x = shares ? std::log(std::max<double>(score, least)) : score;
    sum += x, squares += x * x, most = std::max(most, x);
  }
  const auto count = static_cast<double>(scores.size());
  const double mean = sum / count, variance = squares / count - mean * mean;
  return variance > 0 ? (most - mean) / std::sqrt(variance) : 0;
}

std::string names_of(const std::vector<const Image*>& images) {
  std::string text;
  for (size_t at = 0; at < images.size() && at < 3; ++at) text += (at ? ", " : "") + images[at]->name;
  return text + (images.size() > 3 ? ", …" : "");
}

}  // namespace

Image image_of(const float* data, int64_t channels, int64_t height, int64_t width, bool channels_first) {
  const auto at = [&](int64_t c, int64_t y, int64_t x) {
    return data[channels_first ? (c * height + y) * width + x : (y * width + x) * channels + c];
  };
  const auto is_one_colour = [&](bool row, int64_t line) {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t along = 1; along < (row ? width : height); ++along)
        if (row ? at(c, line, along) != at(c, line, 0) : at(c, along, line) != at(c, 0, line)) return false;
    return true;
  };
  // Bars beside a letterboxed image say nothing of it.
  int64_t top = 0, bottom = height, left = 0, right = width;
  while (top < height && is_one_colour(true, top)) ++top;
  if (top == height) top = 0;
  else
    while (is_one_colour(true, bottom - 1)) --bottom;
  while (left < width && is_one_colour(false, left)) ++left;
  if (left == width) left = 0;
  else
    while (is_one_colour(false, right - 1)) --right;
  Image image;
  image.channels = channels;
  double sum = 0, squares = 0;
  std::array<double, 3> by_channel{};
  std::array<float, 3> least{}, most{};
  for (int64_t c = 0; c < channels; ++c)
    least[static_cast<size_t>(c)] = most[static_cast<size_t>(c)] = at(c, top, left);
  std::array<double, 64> grid{};
  std::array<int64_t, 64> counts{};
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x) {
      const auto cell =
          static_cast<size_t>((y - top) * cells / (bottom - top) * cells + (x - left) * cells / (right - left));
      ++counts[cell];
      for (int64_t c = 0; c < channels; ++c) {
        const float value = at(c, y, x);
        float &low = least[static_cast<size_t>(c)], &high = most[static_cast<size_t>(c)];
        low = std::min(low, value), high = std::max(high, value);
        sum += value, squares += static_cast<double>(value) * value;
        by_channel[static_cast<size_t>(c)] += value;
        grid[cell] += value;
      }
    }
  image.low = *std::min_element(least.begin(), least.begin() + channels);
  image.high = *std::max_element(most.begin(), most.begin() + channels);
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) image.range = std::max(image.range, most[c] - least[c]);
  const auto pixels = static_cast<double>((bottom - top) * (right - left)),
             all = pixels * static_cast<double>(channels);
  image.mean = sum / all;
  image.deviation = std::sqrt(std::max(0.0, squares / all - image.mean * image.mean));
  if (channels == 3) image.first = by_channel[0] / pixels, image.last = by_channel[2] / pixels;
  for (size_t cell = 0; cell < grid.size(); ++cell)
    image.grid[cell] = static_cast<float>(counts[cell] ? grid[cell] / static_cast<double>(counts[cell] * channels) : 0);
  return image;
}

double likeness(const std::vector<Image>& images) {
  constexpr size_t most_compared = 64;
  std::vector<double> alike;
  const size_t stride = (images.size() + most_compared - 1) / most_compared;
  for (size_t a = 0; a < images.size(); a += stride)
    for (size_t b = a + stride; b < images.size(); b += stride) alike.push_back(correlation(images[a], images[b]));
  return alike.empty() ? 0 : median(alike);
}

std::vector<plan::Suspicion> suspicions_of(const std::vector<Image>& images) {
  constexpr double too_dark = 0.08, too_bright = 0.95, flat = 1e-5;
  constexpr double least_white = -3, most_of_planes = 64;
  std::vector<plan::Suspicion> found;
  if (images.empty()) return found;
  double low = images[0].low, high = images[0].high, range = 0;
  for (const Image& image : images) {
    low = std::min<double>(low, image.low), high = std::max<double>(high, image.high);
    range = std::max<double>(range, image.range);
  }
  // Planes of such numbers are the loudness of tones, for example.
  const bool are_planes = images[0].channels == 1 && high > 1.5 && high < most_of_planes;
  std::vector<const Image*> constant;
  std::vector<double> light;
  for (const Image& image : images) {
    if (image.deviation <= flat * std::max({std::fabs(low), std::fabs(high), 1e-30})) constant.push_back(&image);
    light.push_back(brightness(image.mean, low, high));
  }
  if (!constant.empty())
    found.push_back({fmt::format("{} of {} images hold one colour alone", constant.size(), images.size()),
                     names_of(constant), "leave them out"});
  if (constant.size() == images.size()) return found;
  if (low >= -1e-3 && high <= 1.5 / 255)
    found.push_back({"the images look scaled twice", fmt::format("their values reach from {:.3g} to {:.3g}", low, high),
                     "leave out one of the scales by 1/255"});
  else if (images[0].channels == 3 && high < least_white && range <= 1.01)
    found.push_back({"the images look scaled before a mean of bytes was taken",
                     fmt::format("their values reach from {:.3g} to {:.3g}", low, high),
                     "a mean between 0 and 255 goes with scale=1"});
  else if (!are_planes && median(light) < too_dark)
    found.push_back({"the images are nearly black",
                     fmt::format("half of them are darker than {:.1f} % of white", 100 * median(light)),
                     "calibrate with images lit as those to come"});
  else if (!are_planes && median(light) > too_bright)
    found.push_back({"the images are nearly white",
                     fmt::format("half of them are lighter than {:.1f} % of white", 100 * median(light)),
                     "calibrate with images exposed as those to come"});
  if (const double alike = likeness(images); alike > same_scene)
    found.push_back({fmt::format("the {} images show one scene", images.size()),
                     fmt::format("their light and dark parts agree, with a correlation of {:.2f}", alike),
                     "add images of other scenes and times, if the engine will see them"});
  return found;
}

double certainty(const std::vector<Tensor>& outputs, int64_t image, int64_t images) {
  constexpr size_t best = 20;
  double total = 0;
  for (const Tensor& output : outputs) {
    const Dims& dims = output.dims();
    if (output.dtype() != DType::f32 || dims.rank() == 0 || dims[0] % images != 0) continue;
    const int64_t elements = output.elements() / images;
    if (elements < 2) continue;
    const float* data = output.data<float>() + image * elements;
    const int64_t length = dims.rank() <= 2 ? dims.back() : *std::max_element(dims.begin() + 1, dims.end());
    if (dims.rank() <= 2 || length == elements) {
      for (int64_t row = 0; length > 1 && row < elements / length; ++row)
        total += standing_out({data + row * length, static_cast<size_t>(length)});
      continue;
    }
    // Of the entries along the shortest axis behind the first, those that lie in 0..1 are scores.
    size_t axis = 1;
    for (size_t at = 2; at < dims.rank(); ++at)
      if (dims[at] > 1 && (dims[at] < dims[axis] || dims[axis] == 1)) axis = at;
    int64_t inner = 1;
    for (size_t at = axis + 1; at < dims.rank(); ++at) inner *= dims[at];
    const int64_t features = dims[axis];
    std::vector<char> score(static_cast<size_t>(features), 1);
    for (int64_t at = 0; at < elements; ++at)
      if (!(data[at] >= 0 && data[at] <= 1)) score[static_cast<size_t>(at / inner % features)] = 0;
    std::vector<float> scores;
    for (int64_t at = 0; at < elements; ++at)
      if (score[static_cast<size_t>(at / inner % features)]) scores.push_back(data[at]);
    const size_t count = std::min(best, scores.size());
    std::partial_sort(scores.begin(), scores.begin() + static_cast<ptrdiff_t>(count), scores.end(), std::greater<>());
    for (size_t at = 0; at < count; ++at) total += scores[at] / static_cast<double>(count);
  }
  return total;
}

}  // namespace tenon::quant
