// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tenon {

/// The candidate nearest to `word` by edits (Damerau-Levenshtein, optimal string alignment); "" where none is near
/// enough to be meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace tenon
