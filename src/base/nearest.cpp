// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <algorithm>

namespace tenon {

namespace {
constexpr size_t longest = 64;

size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t row = 0; row <= a.size(); ++row) cost[row][0] = row;
  for (size_t column = 0; column <= b.size(); ++column) cost[0][column] = column;
  for (size_t row = 1; row <= a.size(); ++row)
    for (size_t column = 1; column <= b.size(); ++column) {
      const size_t change = a[row - 1] != b[column - 1];
      size_t& best = cost[row][column];
      best = std::min({cost[row - 1][column] + 1, cost[row][column - 1] + 1, cost[row - 1][column - 1] + change});
      const bool swapped = row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1];
      if (swapped) best = std::min(best, cost[row - 2][column - 2] + 1);
    }
  return cost[a.size()][b.size()];
}
}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > longest) return "";
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edits(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tenon
