// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <string>

#include "ir/graph.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// What a calibration holds for: a cache of another key is not used.
struct CacheKey {
  std::string graph, weights;  ///< hashes of the optimised graph, without and of its constants
  std::string preprocessing;   ///< text of the data's preparation
  std::string options;         ///< the calibrator and what it was told
};
CacheKey key_of(const ir::Graph& graph, const std::string& preprocessing, const CalibrationOptions& options);

/// A recipe as JSON text, version 1. Numbers read back exactly.
std::string write_cache(const CacheKey& key, const Recipe& recipe);

/// The recipe of a cache, checked against the graph. `stale` says which part of the key differs, "" where none does;
/// the recipe is then empty. Throws Error(io) where the text is no cache or holds what no graph can use.
struct CachedRecipe {
  Recipe recipe;
  std::string stale;
};
CachedRecipe read_cache(const std::string& text, const CacheKey& key, const ir::Graph& graph);

}  // namespace tenon::quant
