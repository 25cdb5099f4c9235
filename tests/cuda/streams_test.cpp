// SPDX-License-Identifier: Apache-2.0
// Which steps of a GPU may run at the same time, and that what does shares no memory.
#include <gtest/gtest.h>

#include "backends/cuda/runtime/streams.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace tenon::tests {
namespace {

using cuda::conflict;
using cuda::footprint;
using cuda::Footprint;
using cuda::StreamChoice;
using cuda::choose_streams;

plan::Place pixels(int64_t offset, int64_t channels, int64_t pitch) {
  plan::Place place;
  place.offset = offset;
  place.dims = {1, 4, 5, channels};
  place.strides = {20 * pitch, 5 * pitch, pitch, 1};
  return place;
}

TEST(Streams, SlicesOfChannelsAreApart) {
  const Footprint low = footprint(4096, pixels(0, 16, 48), 1, true);
  const Footprint high = footprint(4096, pixels(16, 32, 48), 1, true);
  const Footprint both = footprint(4096, pixels(8, 16, 48), 1, false);
  const Footprint all = footprint(4096, pixels(0, 48, 48), 1, false);
  EXPECT_FALSE(conflict(low, high));
  EXPECT_TRUE(conflict(low, both));
  EXPECT_TRUE(conflict(high, both));
  EXPECT_TRUE(conflict(low, all));
  EXPECT_FALSE(conflict(both, all)) << "both only read";
  EXPECT_FALSE(conflict(all, footprint(4096 + 960, pixels(0, 48, 48), 1, true))) << "behind it";
  EXPECT_EQ(low.run, 16u);
  EXPECT_EQ(low.pitch, 48u);
  EXPECT_EQ(all.pitch, 0u);
}

std::vector<Footprint> touches(std::initializer_list<int> reads, int writes) {
  std::vector<Footprint> list;
  const auto at = [](int block, bool writing) {
    const auto begin = static_cast<uint64_t>(block) * 100;
    return Footprint{begin, begin + 100, 0, 100, writing};
  };
  for (int block : reads) list.push_back(at(block, false));
  list.push_back(at(writes, true));
  return list;
}

TEST(Streams, BranchesRunBesideEachOtherAndMeet) {
  // 0 -> 1 -> 2 and 0 -> 3, which 4 adds; 5 overwrites what 1 reads.
  const std::vector<StreamChoice> plan = choose_streams(
      {touches({9}, 0), touches({0}, 1), touches({1}, 2), touches({0}, 3), touches({2, 3}, 4), touches({4}, 0)}, 4);
  EXPECT_EQ(plan[0].stream_at, 0);
  EXPECT_EQ(plan[1].stream_at, 0);
  EXPECT_EQ(plan[2].stream_at, 0);
  EXPECT_EQ(plan[3].stream_at, 1);
  EXPECT_EQ(plan[3].waits, std::vector<size_t>{0});
  EXPECT_EQ(plan[4].stream_at, 1) << "behind the later of what it needs";
  EXPECT_EQ(plan[4].waits, std::vector<size_t>{2});
  EXPECT_EQ(plan[5].stream_at, 1);
  EXPECT_TRUE(plan[5].waits.empty());
}

TEST(Streams, AsManyAsThereMayBe) {
  const std::vector<StreamChoice> plan =
      choose_streams({touches({9}, 0), touches({0}, 1), touches({0}, 2), touches({0}, 3), touches({0}, 4)}, 2);
  EXPECT_EQ(plan[1].stream_at, 0);
  EXPECT_EQ(plan[2].stream_at, 1);
  EXPECT_EQ(plan[3].stream_at, 0);
  EXPECT_EQ(plan[4].stream_at, 1);
  EXPECT_TRUE(plan[4].waits.empty()) << "step 2, before it on its stream_at, has waited for step 0";
}

TEST(Streams, DepthKeepsTheMemoryOfBranchesApart) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(64)});
  graph.inputs = {x};
  const ir::ValueId root = graph.apply("Exp", {x}, {}, {}, "root");
  std::vector<ir::ValueId> ends, middles;
  for (const char* name : {"a", "b", "c"}) {
    middles.push_back(graph.apply("Exp", {root}, {}, {}, name));
    ends.push_back(graph.apply("Sin", {middles.back()}, {}, {}, std::string(name) + "2"));
  }
  const ir::ValueId sum = graph.apply("Sum", ends, {}, {}, "sum");
  graph.outputs = {sum};
  graph.output_names = {"sum"};
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph, true);
  const auto storage = [&](ir::ValueId value) {
    return layout.storages[static_cast<size_t>(layout.places[value].storage)];
  };
  for (ir::ValueId one : middles)
    for (ir::ValueId other : middles)
      if (one != other) {
        const plan::Storage a = storage(one), b = storage(other);
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
  EXPECT_GT(layout.arena_bytes, plan::lay_out(graph).arena_bytes) << "one after the other they would share it";
}

TEST(Layout, OfAGpuIsNotHeldToWhatTheHostHas) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(int64_t{1} << 45)});
  graph.inputs = {x};
  graph.outputs = {graph.apply("Exp", {x}, {}, {}, "exp")};
  graph.output_names = {"y"};
  ops::infer(graph);
  EXPECT_THROW(plan::lay_out(graph), Error);
  EXPECT_GE(plan::lay_out(graph, false, false).arena_bytes, int64_t{1} << 47);
  set_limits({.memory_bytes = int64_t{1} << 40});
  EXPECT_THROW(plan::lay_out(graph, false, false), Error);
  set_limits({});
}

}  // namespace
}  // namespace tenon::tests
