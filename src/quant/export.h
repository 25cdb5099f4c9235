// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// How other runtimes want their quantised models.
enum class Style {
  standard,     ///< u8 activations, biases in floating point
  tensorrt,     ///< i8 activations with zero point 0, biases in floating point
  openvino,     ///< as standard
  onnxruntime,  ///< u8 activations, i32 biases
};

/// Names of the tensors of `plain` that the values of `optimised` are, where there is one: both come from one model,
/// and a value is the last result of the ONNX nodes that its producer stands for.
std::map<std::string, std::string> same_tensors(const ir::Graph& optimised, const ir::Graph& plain);

/// The passes that give a graph ONNX does not have; a plain graph is optimised without them.
std::vector<std::string> passes_of_ours();

/// Writes a recipe made for `optimised` into `plain`, the same model by ONNX's own ops. Throws Error(unsupported) where
/// an anchor of the recipe is not there.
void export_recipe(const ir::Graph& optimised, const Recipe& recipe, Style style, ir::Graph& plain);

}  // namespace tenon::quant
