// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

namespace tenon::vision {

struct Stroke {
  float x0, y0, x1, y1;
};

/// Units of the font: capitals are 10 high, descenders reach 3 below the baseline.
inline constexpr float cap_units = 10, descender_units = 3;

/// Lays out text as straight strokes in font units, the tops of capitals at y = 0. Gives the width of the line.
/// UTF-8; a character without a glyph is a box.
float text_strokes(std::string_view text, std::vector<Stroke>& strokes);

}  // namespace tenon::vision
