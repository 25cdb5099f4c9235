// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

#include "plan/plan.h"

namespace tenon::plan {
namespace {

constexpr int64_t alignment = 64;
constexpr int64_t search_work = 100'000'000;  // pairs of storages looked at, about 0.1 s
constexpr double most_growth = 1.1;           // of an arena whose memory rests

/// Whether memory that one step has read may be another's output at once. On a host with several caches it had better
/// rest for a step: the other cores still hold its lines, and writing takes them back one by one.
enum class Reuse { at_once, rested };

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// What stands in the arena, from its offset to its end, for the steps it is used in.
struct Placed {
  int64_t offset, end;
  int first, last;
};

/// Places storages in this order, each at the lowest gap among those in use at the same time; returns the arena's size.
int64_t place_in_order(std::vector<Storage>& storages, const std::vector<int>& order, Reuse reuse) {
  const int rest = reuse == Reuse::rested;
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  int64_t end = 0;
  for (int id : order) {
    Storage& storage = storages[id];
    const int64_t bytes = storage.bytes;
    int64_t offset = 0, best = -1, best_gap = INT64_MAX;
    for (const Placed& other : placed) {
      if (other.last + rest < storage.first || storage.last + rest < other.first) continue;
      const int64_t gap = other.offset - offset;
      if (gap >= bytes && gap < best_gap) best = offset, best_gap = gap;
      offset = std::max(offset, other.end);
    }
    storage.offset = best >= 0 ? best : offset;
    const Placed own{storage.offset, storage.offset + aligned(bytes), storage.first, storage.last};
    end = std::max(end, own.end);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), own,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                  own);
  }
  return end;
}

bool is_order(const std::vector<int>& order, size_t count) {
  std::vector<char> seen(count, 0);
  for (const int id : order) {
    if (id < 0 || static_cast<size_t>(id) >= count || seen[static_cast<size_t>(id)]) return false;
    seen[static_cast<size_t>(id)] = 1;
  }
  return order.size() == count;
}

struct Placement {
  std::vector<int> order;
  std::vector<Storage> storages;
  int64_t bytes = INT64_MAX;
};

/// The smallest arena that a few orders and a local search from the best of them give.
Placement search(const std::vector<Storage>& storages, const std::vector<int64_t>& live, int64_t lower_bound,
                 Reuse reuse, bool quick) {
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
  Placement best;
  const auto attempt = [&](const std::vector<int>& by) {  // kept when no worse
    std::vector<Storage> candidate = storages;
    const int64_t bytes = place_in_order(candidate, by, reuse);
    if (bytes <= best.bytes) best = {by, std::move(candidate), bytes};
  };
  for (const Less& less : orders) {
    std::stable_sort(order.begin(), order.end(), less);
    attempt(order);
    if (best.bytes == lower_bound) break;
  }
  // Local search: what stands highest, or any other, takes another place in the order.
  std::minstd_rand random(1);
  const auto count = static_cast<int64_t>(storages.size());
  for (int64_t tries = count > 1 && !quick ? std::min<int64_t>(2000, search_work / (count * count)) : 0;
       tries > 0 && best.bytes > lower_bound; --tries) {
    std::vector<int> changed = best.order;
    const auto highest = std::max_element(changed.begin(), changed.end(), [&](int x, int y) {
      return best.storages[x].offset + best.storages[x].bytes < best.storages[y].offset + best.storages[y].bytes;
    });
    const auto from =
        tries % 3 ? highest : changed.begin() + static_cast<int64_t>(random() % static_cast<unsigned>(count));
    const int64_t to = static_cast<int64_t>(random() % static_cast<unsigned>(count));
    const int id = *from;
    changed.erase(from);
    changed.insert(changed.begin() + std::min<int64_t>(to, count - 1), id);
    attempt(changed);
  }
  return best;
}

/// Whether memory can rest at little cost.
bool pays(int64_t rested, int64_t at_once) {
  return static_cast<double>(rested) <= most_growth * static_cast<double>(at_once);
}

/// Offsets of the same storages at other sizes, all times what the one that grew most grew by; none where storages are
/// others or the arena would be larger than it must.
std::optional<Placement> scaled(const std::vector<Storage>& storages, const std::vector<Storage>& known,
                                const std::vector<int>& order, int64_t lower_bound) {
  if (known.size() != storages.size()) return std::nullopt;
  int64_t grown = 0, from = 1;  // their ratio
  for (size_t at = 0; at < storages.size(); ++at) {
    const Storage &own = storages[at], &other = known[at];
    if (own.first != other.first || own.last != other.last) return std::nullopt;
    const int64_t units = aligned(own.bytes) / alignment, before = aligned(other.bytes) / alignment;
    if (units > 0 && before == 0) return std::nullopt;
    if (static_cast<__int128>(units) * from > static_cast<__int128>(grown) * before) grown = units, from = before;
  }
  // Rounded down, products of the parts add up to no more than that of the whole: what fitted before one fits still.
  Placement placement{order, storages, 0};
  for (size_t at = 0; at < storages.size(); ++at) {
    Storage& own = placement.storages[at];
    own.offset = static_cast<int64_t>(static_cast<__int128>(known[at].offset / alignment) * grown / from) * alignment;
    placement.bytes = std::max(placement.bytes, own.offset + aligned(own.bytes));
  }
  if (!pays(placement.bytes, lower_bound)) return std::nullopt;
  return placement;
}

/// In this order, rested where that pays. No arena is smaller than `lower_bound`.
Placement placement_in(const std::vector<Storage>& storages, const std::vector<int>& order, bool may_rest,
                       int64_t lower_bound) {
  const auto in_order = [&](Reuse reuse) {
    Placement placement{order, storages};
    placement.bytes = place_in_order(placement.storages, order, reuse);
    return placement;
  };
  if (!may_rest) return in_order(Reuse::at_once);
  Placement rested = in_order(Reuse::rested);
  if (pays(rested.bytes, lower_bound)) return rested;
  Placement tight = in_order(Reuse::at_once);
  return pays(rested.bytes, tight.bytes) ? rested : tight;
}

/// The same arena comes of its order alone by placement_in().
Placement find_placement(const Layout& layout, const std::vector<int64_t>& live, bool may_rest, bool quick) {
  Placement tight = search(layout.storages, live, layout.lower_bound, Reuse::at_once, quick);
  if (!may_rest) return tight;
  Placement rested = search(layout.storages, live, layout.lower_bound, Reuse::rested, quick);
  return pays(rested.bytes, tight.bytes) ? rested : tight;
}

}  // namespace

void assign_offsets(Layout& layout, int steps, bool may_rest, const std::vector<int>* placement,
                    const std::vector<Storage>* known) {
  std::vector<int64_t> live(steps + 1, 0);
  for (const Storage& storage : layout.storages)
    for (int step = storage.first; step <= storage.last; ++step) live[step] += aligned(storage.bytes);
  layout.lower_bound = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  const bool given = placement && is_order(*placement, layout.storages.size());
  std::optional<Placement> like =
      given && known ? scaled(layout.storages, *known, *placement, layout.lower_bound) : std::nullopt;
  Placement found = like    ? std::move(*like)
                    : given ? placement_in(layout.storages, *placement, may_rest, layout.lower_bound)
                            : find_placement(layout, live, may_rest, placement != nullptr);
  layout.storages = std::move(found.storages);
  layout.placement = std::move(found.order);
  layout.arena_bytes = layout.storages.empty() ? 0 : found.bytes;
}

}  // namespace tenon::plan
