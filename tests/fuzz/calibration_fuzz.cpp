// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "ops/op.h"
#include "quant/cache.h"
#include "quant/materialise.h"
#include "quant/trt_cache.h"
#include "target.h"

/// Calibration caches, ours and TensorRT's: each is used or refused, and what is used makes a sound graph.
namespace tenon::fuzz {

namespace {
const ir::Graph& net() {
  static const ir::Graph graph = [] {
    ir::Graph parsed = ir::parse(
        "graph \"g\"\ninput %x : f32[1,2,4,4]\nconst %w : f32[2,2,1,1] = {1.0, 2.0, 3.0, 4.0}\n"
        "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n%b : f32[1,2,4,4] = Conv(%a, %w)\n"
        "%c : f32[1,2,4,4] = Relu(%b)\noutput %c as \"c\"\n");
    parsed.tidy();
    ops::infer(parsed);
    return parsed;
  }();
  return graph;
}
}  // namespace

std::vector<std::string> seeds() {
  quant::Recipe recipe;
  recipe.values = {{"x", {0.1f, 128}}, {"a", {0.5f, 0}}};
  recipe.anchors["a"] = {{0.01f, 0.02f}, {0.5f, -0.25f}};
  return {quant::write_cache(quant::key_of(net(), "", {}), recipe), "TRT-7000-EntropyCalibration2\nx: 3c008912\na: 0\n",
          "{}", ""};
}

void eat(std::span<const uint8_t> bytes) {
  const std::string text(bytes.begin(), bytes.end());
  try {
    quant::Recipe recipe;
    if (quant::is_tensorrt_table(text))
      recipe = quant::recipe_of(quant::parse_tensorrt_table(text), net(), {{"x", "x"}, {"a", "a"}}).recipe;
    else recipe = quant::read_cache(text, quant::key_of(net(), "", {}), net()).recipe;
    ir::Graph graph = net();
    quant::materialise(graph, recipe);
  } catch (const Error&) {
  }
}

}  // namespace tenon::fuzz
