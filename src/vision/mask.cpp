// SPDX-License-Identifier: Apache-2.0
#include "vision/mask.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::vision {
namespace {

/// Where a pixel of the source lies between two of a plane's points.
struct Place {
  int64_t low = 0, high = 0;
  float part = 0;  // of the higher one
};

std::vector<Place> places(int begin, int count, double scale, double offset, int input_side, int64_t side) {
  std::vector<Place> all(static_cast<size_t>(count));
  for (int at = 0; at < count; ++at) {
    const double input = (begin + at + 0.5) * scale + offset;
    const double place =
        std::clamp(input * static_cast<double>(side) / input_side - 0.5, 0.0, static_cast<double>(side - 1));
    const auto low = static_cast<int64_t>(place);
    all[static_cast<size_t>(at)] = {low, std::min(low + 1, side - 1),
                                    static_cast<float>(place - static_cast<double>(low))};
  }
  return all;
}

/// Appends one run length: five bits a letter, the lowest first, and the sign of the last decides the rest.
void append(std::string& text, int64_t value) {
  constexpr int64_t bits = 0x1f, sign = 0x10, more = 0x20;
  constexpr char first = 48;
  while (true) {
    int64_t letter = value & bits;
    value >>= 5;
    const bool done = letter & sign ? value == -1 : value == 0;
    if (!done) letter |= more;
    text += static_cast<char>(letter + first);
    if (done) return;
  }
}

}  // namespace

Mask mask_of(const Planes& planes, std::span<const float> coefficients, const float box[4], const Transform& transform,
             float threshold) {
  const auto pixel = [](float corner, int limit) {
    return std::clamp(static_cast<int>(std::lrint(std::clamp(corner, 0.0f, static_cast<float>(limit)))), 0, limit);
  };
  Mask mask{pixel(box[0], transform.source_width), pixel(box[1], transform.source_height)};
  mask.width = pixel(box[2], transform.source_width) - mask.x0;
  mask.height = pixel(box[3], transform.source_height) - mask.y0;
  if (mask.width <= 0 || mask.height <= 0 || planes.width <= 0 || planes.height <= 0) return {};
  const std::vector<Place> across =
      places(mask.x0, mask.width, transform.scale_x, transform.offset_x, transform.input_width, planes.width);
  const std::vector<Place> down =
      places(mask.y0, mask.height, transform.scale_y, transform.offset_y, transform.input_height, planes.height);
  const int64_t left = across.front().low, columns = across.back().high - left + 1, top = down.front().low,
                rows = down.back().high - top + 1;
  std::vector<float> sums(static_cast<size_t>(rows * columns));
  for (int64_t plane = 0; plane < planes.count; ++plane) {
    const float factor = coefficients[static_cast<size_t>(plane)];
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = planes.data + (plane * planes.height + top + row) * planes.width + left;
      float* to = sums.data() + row * columns;
      for (int64_t column = 0; column < columns; ++column) to[column] += factor * from[column];
    }
  }
  mask.bits.resize(static_cast<size_t>(mask.width) * static_cast<size_t>(mask.height));
  std::vector<float> mixed(static_cast<size_t>(columns));
  uint8_t* bits = mask.bits.data();
  for (const Place& y : down) {
    const float *upper = sums.data() + (y.low - top) * columns, *lower = sums.data() + (y.high - top) * columns;
    for (int64_t column = 0; column < columns; ++column)
      mixed[static_cast<size_t>(column)] = upper[column] + (lower[column] - upper[column]) * y.part;
    for (const Place& x : across) {
      const float low = mixed[static_cast<size_t>(x.low - left)], high = mixed[static_cast<size_t>(x.high - left)];
      *bits++ = low + (high - low) * x.part > threshold;
    }
  }
  return mask;
}

int64_t area(const Mask& mask) { return std::accumulate(mask.bits.begin(), mask.bits.end(), int64_t{0}); }

std::string run_lengths(const Mask& mask, int image_width, int image_height) {
  std::vector<int64_t> runs;
  int64_t length = 0;
  uint8_t value = 0;
  const auto add = [&](uint8_t next, int64_t count) {
    if (next != value) runs.push_back(length), length = 0, value = next;
    length += count;
  };
  const int right = mask.x0 + mask.width, bottom = mask.y0 + mask.height;
  if (!mask.empty()) {
    add(0, static_cast<int64_t>(mask.x0) * image_height);
    for (int x = mask.x0; x < right; ++x) {
      if (mask.y0 > 0) add(0, mask.y0);
      for (int y = mask.y0; y < bottom; ++y) add(mask.at(x, y), 1);
      if (bottom < image_height) add(0, image_height - bottom);
    }
  }
  if (const int64_t rest = static_cast<int64_t>(image_width - (mask.empty() ? 0 : right)) * image_height; rest > 0)
    add(0, rest);
  runs.push_back(length);
  std::string text;
  for (size_t at = 0; at < runs.size(); ++at) append(text, at > 2 ? runs[at] - runs[at - 2] : runs[at]);
  return text;
}

}  // namespace tenon::vision
