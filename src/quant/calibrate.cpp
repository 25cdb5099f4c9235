#include "quant/calibrate.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <optional>

#include "quant/cache.h"
#include "quant/search.h"
#include "quant/trt_cache.h"

namespace tenon::quant {
namespace {

void warn(const Setting& setting, const std::string& text) {
  if (setting.warn) setting.warn(text);
}

Recipe from_table(const std::string& text, const ir::Graph& graph, const Setting& setting) {
  const TensorRtTable table = parse_tensorrt_table(text);
  ForeignRecipe foreign = recipe_of(table, graph, setting.names);
  if (foreign.covered == 0)
    throw Error(Code::usage, "the TensorRT calibration table names no tensor of this model",
                {.why = fmt::format("it has {} tensors", table.scales.size()),
                 .hint = "tables made after fusion have other names; calibrate with --data"});
  warn(setting, fmt::format("{}: covers {} of {} layers; the others stay in floating point", table.header,
                            foreign.covered, foreign.wanted));
  return std::move(foreign.recipe);
}

Recipe measure(const ir::Graph& graph, Calibrator& data, const Setting& setting) {
  const Structure structure = structure_of(graph);
  Team team(setting.threads);
  const Observations seen = observe(graph, structure, data, setting, team);
  const Workshop shop{graph, seen, setting, batch_shapes(graph, setting), team};
  Recipe recipe = place(shop, structure, choose_ranges(shop, structure), setting.options.target_error);
  // Biases are corrected where that helps.
  Recipe plain = recipe;
  for (auto& [name, weights] : plain.anchors) weights.bias.clear();
  plain.error = shop.error(plain);
  return plain.error < recipe.error ? plain : recipe;
}

}  // namespace

Recipe calibrate(const ir::Graph& graph, Calibrator& data, const Setting& setting) {
  const std::string text = data.read_cache();
  if (is_tensorrt_table(text)) return from_table(text, graph, setting);
  const CacheKey key = key_of(graph, data.preprocessing(), setting.options);
  if (!text.empty()) {
    CachedRecipe cached = read_cache(text, key, graph);
    if (cached.stale.empty()) return std::move(cached.recipe);
    warn(setting, "the calibration cache was made with other " + cached.stale + "; calibrating again");
  }
  Recipe recipe = measure(graph, data, setting);
  data.write_cache(write_cache(key, recipe));
  return recipe;
}

}  // namespace tenon::quant
