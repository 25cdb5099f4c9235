// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>

#include "plan/plan.h"

namespace tenon::plan {
namespace {

constexpr int64_t alignment = 64;
constexpr int64_t search_work = 100'000'000;  // pairs of storages looked at, about 0.1 s

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Places storages in this order, each at the lowest gap among those in use at the same time; returns the arena's size.
int64_t place_in_order(std::vector<Storage>& storages, const std::vector<int>& order) {
  std::vector<int> placed;
  int64_t end = 0;
  for (int id : order) {
    Storage& storage = storages[id];
    int64_t offset = 0, best = -1, best_gap = INT64_MAX;
    for (int other_id : placed) {  // kept sorted by offset
      const Storage& other = storages[other_id];
      if (other.last < storage.first || storage.last < other.first) continue;
      const int64_t gap = other.offset - offset;
      if (gap >= storage.bytes && gap < best_gap) best = offset, best_gap = gap;
      offset = std::max(offset, other.offset + aligned(other.bytes));
    }
    storage.offset = best >= 0 ? best : offset;
    end = std::max(end, storage.offset + aligned(storage.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), id,
                                   [&](int a, int b) { return storages[a].offset < storages[b].offset; }), id);
  }
  return end;
}

bool is_order(std::vector<int> order, size_t count) {
  std::sort(order.begin(), order.end());
  for (size_t at = 0; at < order.size(); ++at)
    if (order[at] != static_cast<int>(at)) return false;
  return order.size() == count;
}

}  // namespace

void assign_offsets(Layout& layout, int steps, const std::vector<int>* placement) {
  std::vector<Storage>& storages = layout.storages;
  std::vector<int64_t> live(steps + 1, 0);
  for (const Storage& storage : storages)
    for (int step = storage.first; step <= storage.last; ++step) live[step] += aligned(storage.bytes);
  layout.lower_bound = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  if (placement && is_order(*placement, storages.size())) {
    layout.placement = *placement;
    layout.arena_bytes = place_in_order(storages, *placement);
    return;
  }

  std::vector<int> order(storages.size());
  std::iota(order.begin(), order.end(), 0);
  const auto span = [&](int id) { return storages[id].last - storages[id].first + 1; };
  using Less = std::function<bool(int, int)>;
  const Less orders[] = {
      [&](int a, int b) { return storages[a].bytes > storages[b].bytes; },
      [&](int a, int b) { return storages[a].bytes * span(a) > storages[b].bytes * span(b); },
      [&](int a, int b) { return span(a) != span(b) ? span(a) > span(b) : storages[a].bytes > storages[b].bytes; },
      [&](int a, int b) { return storages[a].first < storages[b].first; },
      [&](int a, int b) {  // those alive where the peak is go first
        const auto peak = std::max_element(live.begin(), live.end()) - live.begin();
        const bool at_a = storages[a].first <= peak && peak <= storages[a].last,
                   at_b = storages[b].first <= peak && peak <= storages[b].last;
        return at_a != at_b ? at_a : storages[a].bytes > storages[b].bytes;
      },
  };
  std::vector<Storage> best;
  std::vector<int> best_order;
  int64_t best_bytes = INT64_MAX;
  const auto attempt = [&](const std::vector<int>& by) {  // kept when no worse
    std::vector<Storage> candidate = storages;
    const int64_t bytes = place_in_order(candidate, by);
    if (bytes > best_bytes) return;
    best_bytes = bytes;
    best = std::move(candidate);
    best_order = by;
  };
  for (const Less& less : orders) {
    std::stable_sort(order.begin(), order.end(), less);
    attempt(order);
    if (best_bytes == layout.lower_bound) break;
  }
  // Local search: what stands highest, or any other, takes another place in the order.
  std::minstd_rand random(1);
  const auto count = static_cast<int64_t>(storages.size());
  for (int64_t tries = count > 1 && !placement ? std::min<int64_t>(2000, search_work / (count * count)) : 0;
       tries > 0 && best_bytes > layout.lower_bound; --tries) {
    std::vector<int> changed = best_order;
    const auto highest = std::max_element(changed.begin(), changed.end(), [&](int x, int y) {
      return best[x].offset + best[x].bytes < best[y].offset + best[y].bytes;
    });
    const auto from =
        tries % 3 ? highest : changed.begin() + static_cast<int64_t>(random() % static_cast<unsigned>(count));
    const int64_t to = static_cast<int64_t>(random() % static_cast<unsigned>(count));
    const int id = *from;
    changed.erase(from);
    changed.insert(changed.begin() + std::min<int64_t>(to, count - 1), id);
    attempt(changed);
  }
  storages = std::move(best);
  layout.placement = std::move(best_order);
  layout.arena_bytes = storages.empty() ? 0 : best_bytes;
}

}  // namespace tenon::plan
