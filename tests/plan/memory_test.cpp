// SPDX-License-Identifier: Apache-2.0
// Places of storages in the arena: no two that are in use together overlap, memory rests where that is cheap, and the
// order alone gives the same places again.
#include <gtest/gtest.h>

#include <random>

#include "plan/plan.h"

using namespace tenon;

namespace {

/// A chain: what step `at` writes is read by the next one alone.
backends::Layout chain(const std::vector<int64_t>& bytes) {
  backends::Layout layout;
  for (size_t at = 0; at < bytes.size(); ++at) {
    backends::Storage& storage = layout.storages.emplace_back();
    storage.bytes = bytes[at];
    storage.first = static_cast<int>(at);
    storage.last = static_cast<int>(at) + 1;
  }
  return layout;
}

bool overlap(const backends::Storage& a, const backends::Storage& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(Memory, RestsForAStepWhereTheArenaHardlyGrows) {
  // The peak is in front; behind it there is room for three of the small ones in turn.
  backends::Layout layout = chain({64000, 64000, 6400, 6400, 6400, 6400});
  plan::assign_offsets(layout, 6, true);
  EXPECT_EQ(layout.lower_bound, 128000);
  EXPECT_LE(layout.arena_bytes, 128000 * 11 / 10);
  for (size_t at = 2; at < layout.storages.size(); ++at)
    EXPECT_FALSE(overlap(layout.storages[at - 2], layout.storages[at])) << at;
}

TEST(Memory, IsReusedAtOnceWhereRestCostsMuchOrIsNotAskedFor) {
  backends::Layout equal = chain({64000, 64000, 64000, 64000});
  plan::assign_offsets(equal, 4, true);
  EXPECT_EQ(equal.arena_bytes, 128000);
  backends::Layout small = chain({64000, 6400, 6400, 6400});
  plan::assign_offsets(small, 4, false);
  EXPECT_EQ(small.arena_bytes, 70400);
}

TEST(Memory, ComesOfItsOrderAlone) {
  std::minstd_rand random(7);
  for (int round = 0; round < 50; ++round) {
    backends::Layout layout;
    for (int at = 0; at < 12; ++at) {
      backends::Storage& storage = layout.storages.emplace_back();
      storage.bytes = 1 + static_cast<int64_t>(random() % 5000);
      storage.first = at;
      storage.last = at + 1 + static_cast<int>(random() % 3);
    }
    backends::Layout again = layout;
    plan::assign_offsets(layout, 16, true);
    plan::assign_offsets(again, 16, true, &layout.placement);
    EXPECT_EQ(again.arena_bytes, layout.arena_bytes);
    for (size_t at = 0; at < layout.storages.size(); ++at) {
      EXPECT_EQ(again.storages[at].offset, layout.storages[at].offset) << round << ' ' << at;
      for (size_t other = 0; other < at; ++other) {
        const backends::Storage &a = layout.storages[at], &b = layout.storages[other];
        EXPECT_FALSE(a.first <= b.last && b.first <= a.last && overlap(a, b)) << round << ' ' << at << ' ' << other;
      }
    }
  }
}

TEST(Memory, OfOtherSizesIsScaledWhereThatIsNoLarger) {
  std::minstd_rand random(5);
  int scaled = 0;
  for (int round = 0; round < 60; ++round) {
    backends::Layout layout;
    for (int at = 0; at < 12; ++at) {
      backends::Storage& storage = layout.storages.emplace_back();
      storage.bytes = 1 + static_cast<int64_t>(random() % 50000);
      storage.first = at, storage.last = at + 1 + static_cast<int>(random() % 3);
    }
    backends::Layout grown = layout;
    plan::assign_offsets(layout, 16, true);
    // All by about the same factor, or each by its own.
    const int64_t factor = 1 + static_cast<int64_t>(random() % 9);
    for (backends::Storage& storage : grown.storages)
      storage.bytes = round % 2 ? storage.bytes * factor / 2 + 1 : 1 + static_cast<int64_t>(random() % 90000);
    backends::Layout plain = grown;
    plan::assign_offsets(grown, 16, true, &layout.placement, &layout.storages);
    plan::assign_offsets(plain, 16, true, &layout.placement);
    scaled += round % 2 && static_cast<double>(layout.arena_bytes) <= 1.05 * static_cast<double>(layout.lower_bound) &&
              grown.storages[3].offset == layout.storages[3].offset / 128 * factor * 64;
    EXPECT_LE(grown.arena_bytes, std::max(plain.arena_bytes, grown.lower_bound * 11 / 10)) << round;
    for (size_t at = 0; at < grown.storages.size(); ++at) {
      const backends::Storage& a = grown.storages[at];
      EXPECT_LE(a.offset + a.bytes, grown.arena_bytes) << round << ' ' << at;
      for (size_t other = 0; other < at; ++other) {
        const backends::Storage& b = grown.storages[other];
        EXPECT_FALSE(a.first <= b.last && b.first <= a.last && overlap(a, b)) << round << ' ' << at << ' ' << other;
      }
    }
  }
  EXPECT_GT(scaled, 0);
}

}  // namespace
