// SPDX-License-Identifier: Apache-2.0
// Memory of the device, on emulated GPUs: what the steps of a program keep is one piece of whole pages, and kernels are
// timed on small numbers.
#include <gtest/gtest.h>
#include <tenon/error.h>
#include <tenon/limits.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "backends/cuda/runtime/device.h"
#include "backends/cuda/runtime/timing_memory.h"
#include "ptx_emulator/cards.h"
#include "support/net.h"

namespace tenon::tests {
namespace {

using cuda::Buffer, cuda::Weights;
using ::tenon::test::error_of;

constexpr int64_t gap = 256;

int64_t taken() {
  size_t free = 0, all = 0;
  cuda::check(cuda::driver().MemGetInfo(&free, &all), "cuMemGetInfo");
  return static_cast<int64_t>(all - free);
}

/// Slices of these sizes.
std::vector<Buffer> filled(Weights& weights, const std::vector<size_t>& sizes) {
  const Weights::Filling filling(weights);
  std::vector<Buffer> slices;
  for (const size_t bytes : sizes) slices.push_back(Buffer::kept(bytes));
  return slices;
}

class WeightsOn : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuda::driver().why, "");
    cuda::Device::get(GetParam());
  }
  void TearDown() override {
    set_limits({});
    EXPECT_EQ(taken(), 0);
  }
};

TEST_P(WeightsOn, HaveKernelsMadeReadyOneAfterTheOther) {
  cuda::Device& device = cuda::Device::get(GetParam());
  const auto sources = [](const std::string& name) {
    std::vector<cuda::Source> list;
    for (int at = 0; at < 64; ++at) list.push_back({"control.cu", {name + "=" + std::to_string(at % 32)}, ""});
    return list;
  };
  std::vector<size_t> told;
  const auto caller = std::this_thread::get_id();
  device.prepare(sources("ALL"), [&](size_t ready, size_t of) {
    EXPECT_EQ(of, 32u) << "each is made once";
    EXPECT_EQ(std::this_thread::get_id(), caller);
    told.push_back(ready);
    return true;
  });
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_LE(told.back(), 32u);
  size_t calls = 0;
  device.prepare(sources("ALL"), [&](size_t, size_t) { return ++calls > 0; });
  EXPECT_EQ(calls, 0u) << "all are ready";
  device.prepare(sources("FEW"), [&](size_t, size_t) { return ++calls == 0; });
  EXPECT_EQ(calls, 1u) << "none is wanted after the first";
}

TEST_P(WeightsOn, KeepWhatIsPutIntoThem) {
  Weights weights(GetParam());
  const std::vector<size_t> sizes = {1, 300, 3 << 20, 255, 256, 5 << 20};
  const std::vector<Buffer> slices = filled(weights, sizes);
  std::vector<std::vector<uint8_t>> lists;
  for (size_t at = 0; at < sizes.size(); ++at) {
    EXPECT_EQ(slices[at].bytes(), sizes[at]);
    EXPECT_EQ(slices[at].address() % gap, 0u);
    lists.emplace_back(sizes[at]);
    std::iota(lists.back().begin(), lists.back().end(), static_cast<uint8_t>(17 * at));
    const_cast<Buffer&>(slices[at]).upload(lists.back().data(), sizes[at]);
  }
  for (size_t at = 0; at < sizes.size(); ++at) {
    std::vector<uint8_t> got(sizes[at]);
    cuda::check(cuda::driver().MemcpyDtoH(got.data(), slices[at].address(), got.size()), "cuMemcpyDtoH");
    EXPECT_TRUE(got == lists[at]) << at;
  }
  EXPECT_EQ(weights.bytes(), gap + 2 * gap + (3 << 20) + gap + gap + (5 << 20));
}

TEST_P(WeightsOn, TakeNoMoreThanTheLimitToTheByte) {
  const std::vector<size_t> sizes = {100, 3 << 20, 1000};
  const int64_t all = gap + (3 << 20) + 4 * gap;
  set_limits({.memory_bytes = all});
  {
    Weights weights(GetParam());
    EXPECT_EQ(error_of([&] { filled(weights, sizes); }), "none");
  }
  set_limits({.memory_bytes = all - 1});
  Weights weights(GetParam());
  EXPECT_NE(error_of([&] { filled(weights, sizes); }).find("the limit of memory is reached on the GPU"),
            std::string::npos);
}

TEST_P(WeightsOn, GiveTheLastSlicesRoomToTheNext) {
  Weights weights(GetParam());
  const std::vector<Buffer> first = filled(weights, {1000});
  const size_t before = weights.bytes();
  for (int turn = 0; turn < 100; ++turn) filled(weights, {8 << 20});
  EXPECT_EQ(weights.bytes(), before);
  EXPECT_LE(taken(), 5 * ptx_emulator::page_bytes);
}

TEST_P(WeightsOn, SayWhatIsFreeWhereMemoryIsShort) {
  Weights weights(GetParam());
  const std::string error = error_of([&] { filled(weights, {size_t{4} << 20, size_t{17} << 30}); });
  EXPECT_NE(error.find("the GPU is out of memory"), std::string::npos) << error;
  EXPECT_NE(error.find("it takes 17.0 GiB"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Ranges, WeightsOn, testing::Values(0, ptx_emulator::later), [](const auto& info) {
  return ptx_emulator::cards[info.param].has_ranges ? "of_addresses" : "none";
});

TEST(Weights, AreLessThanAPageMoreThanTheirBytes) {
  cuda::Device::get(0);
  std::vector<size_t> sizes(60, (5 << 18) + 100);
  sizes.insert(sizes.end(), 60, 1000);
  Weights weights(0);
  const std::vector<Buffer> slices = filled(weights, sizes);
  EXPECT_EQ(weights.bytes(), 60u * ((5 << 18) + gap) + 60u * 1024);
  EXPECT_LT(taken() - static_cast<int64_t>(weights.bytes()), ptx_emulator::page_bytes);
}

TEST(Weights, ServeTheirOwnThreadAlone) {
  cuda::Device::get(0);
  Weights weights(0);
  const Buffer other = Buffer::kept(1000);
  EXPECT_EQ(weights.bytes(), 0u);
  EXPECT_EQ(filled(weights, {1000}).size(), 1u);
}

TEST(TimingMemory, IsOfSmallNumbersAgainAfterAKernelWroteToIt) {
  cuda::Device::get(0);
  constexpr size_t bytes = 9 << 20;
  cuda::TimingMemory memory;
  memory.reserve(bytes);
  memory.reserve(bytes / 2);
  cuda::check(cuda::driver().MemsetD8(memory.address(), 0x7f, bytes), "cuMemsetD8");
  memory.renew(bytes, nullptr);
  std::vector<float> numbers(bytes / sizeof(float));
  cuda::check(cuda::driver().MemcpyDtoH(numbers.data(), memory.address(), bytes), "cuMemcpyDtoH");
  const auto is_small = [](float number) { return std::abs(number) < 1 && std::abs(number) > 1e-6f; };
  EXPECT_EQ(std::count_if(numbers.begin(), numbers.end(), is_small), static_cast<int64_t>(numbers.size()));
}

}  // namespace
}  // namespace tenon::tests
