// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>

#include "ir/graph.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// A calibration table in TensorRT's text form: a line "TRT-<version>-<algorithm>", then "<tensor>: <hex>" with the
/// bits of the scale (largest |x| / 127) as an IEEE-754 float.
struct TensorRtTable {
  std::string header;
  std::map<std::string, float> scales;  ///< by ONNX tensor name; those of 0, "no scale", are left out
};

bool is_tensorrt_table(const std::string& text);
/// Names may hold ": "; the last one divides. Throws Error(io) naming the line.
TensorRtTable parse_tensorrt_table(const std::string& text);
std::string tensorrt_table(const std::map<std::string, float>& scales);

/// Scales of a recipe by ONNX tensor name; `names` gives those of the recipe's values.
std::map<std::string, float> tensorrt_scales(const Recipe& recipe, const std::map<std::string, std::string>& names);

/// A recipe from a table: ranges are [-T, T], or what the producer's activation leaves of that. Anchors whose input the
/// table does not cover stay in floating point. `covered` and `wanted` count the tensors that integer layers read.
struct ForeignRecipe {
  Recipe recipe;
  int covered = 0, wanted = 0;
};
ForeignRecipe recipe_of(const TensorRtTable& table, const ir::Graph& graph,
                        const std::map<std::string, std::string>& names);

}  // namespace tenon::quant
