// SPDX-License-Identifier: Apache-2.0
#include "try.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "backends/cuda/runtime/driver.h"

extern "C" {
int cuModuleLoadData(tenon::cuda::Module*, const void*);
int cuModuleUnload(tenon::cuda::Module);
int cuModuleGetFunction(tenon::cuda::Function*, tenon::cuda::Module, const char*);
int cuLaunchKernelEx(const tenon::cuda::LaunchConfig*, tenon::cuda::Function, void**, void**);
int cuMemAlloc_v2(tenon::cuda::Address*, size_t);
int cuMemFree_v2(tenon::cuda::Address);
int cuMemcpyHtoD_v2(tenon::cuda::Address, const void*, size_t);
int cuMemcpyDtoH_v2(void*, tenon::cuda::Address, size_t);
int cuGetErrorString(int, const char**);
}

namespace tenon::tests {
namespace {

// Before the first call of the driver, which looks once.
const int as_a_card = setenv("TENON_PTX_EMULATOR_RUN", "8.9", 1);

std::string words_of(int result) {
  const char* words = nullptr;
  cuGetErrorString(result, &words);
  return std::to_string(result) + ": " + words;
}

}  // namespace

std::string launch(const std::string& program, std::vector<uint8_t>& memory, unsigned blocks, unsigned threads,
                   unsigned shared_bytes) {
  EXPECT_EQ(as_a_card, 0);
  cuda::Module module = nullptr;
  if (const int result = cuModuleLoadData(&module, program.c_str())) return words_of(result);
  cuda::Function function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "tried"), 0);
  cuda::Address at = 0;
  EXPECT_EQ(cuMemAlloc_v2(&at, memory.size()), 0);
  cuMemcpyHtoD_v2(at, memory.data(), memory.size());
  const cuda::LaunchConfig config{blocks, 1, 1, threads, 1, 1, shared_bytes, nullptr, nullptr, 0};
  void* arguments[] = {&at};
  const int result = cuLaunchKernelEx(&config, function, arguments, nullptr);
  const std::string words = result == 0 ? "" : words_of(result);
  cuMemcpyDtoH_v2(memory.data(), at, memory.size());
  cuMemFree_v2(at);
  cuModuleUnload(module);
  return words;
}

std::string program_of(const std::string& body) {
  std::string text = R"(
.version 8.4
.target sm_89
.address_size 64
.shared .align 16 .b8 room[4096];
.visible .entry tried(.param .u64 numbers)
{
  .reg .b64 %a, %b, %c, %d, %out, %from, %x<32>;
  .reg .b32 %t, %wa, %wb, %wc, %wd, %w<32>;
  .reg .b16 %ha, %hb, %hc, %hd, %h<32>;
  .reg .pred %p<32>;
  mov.u32 %t, %tid.x;
  ld.param.u64 %out, [numbers];
  mad.wide.u32 %out, %t, 32, %out;
  ld.global.v2.u64 {%a, %b}, [%out];
  ld.global.u64 %c, [%out+16];
)";
  for (const std::string name : {"a", "b", "c"})
    text += "  cvt.u32.u64 %w" + name + ", %" + name + ";\n  cvt.u16.u64 %h" + name + ", %" + name + ";\n";
  text += body;
  if (body.find("%hd") != std::string::npos) text += "\n  cvt.u64.u16 %d, %hd;";
  else if (body.find("%wd") != std::string::npos) text += "\n  cvt.u64.u32 %d, %wd;";
  return text + (body.find("%d") != std::string::npos || body.find("%wd") != std::string::npos ||
                         body.find("%hd") != std::string::npos
                     ? "\n  st.global.u64 [%out+24], %d;\n  ret;\n}\n"
                     : "\n  ret;\n}\n");
}

Numbers results_of(const std::string& body, const Numbers& a, const Numbers& b, const Numbers& c) {
  std::vector<uint8_t> memory(a.size() * 32);
  const auto place = [&](size_t thread, size_t which) { return memory.data() + thread * 32 + which * 8; };
  for (size_t at = 0; at < a.size(); ++at) {
    std::memcpy(place(at, 0), &a[at], 8);
    if (at < b.size()) std::memcpy(place(at, 1), &b[at], 8);
    if (at < c.size()) std::memcpy(place(at, 2), &c[at], 8);
  }
  EXPECT_EQ(launch(program_of(body), memory, 1, static_cast<unsigned>(a.size())), "") << body;
  Numbers results(a.size());
  for (size_t at = 0; at < a.size(); ++at) std::memcpy(&results[at], place(at, 3), 8);
  return results;
}

std::string fault_of(const std::string& body, unsigned threads) {
  std::vector<uint8_t> memory(threads * 32);
  return launch(program_of(body), memory, 1, threads);
}

Numbers some_numbers(unsigned seed, size_t count) {
  Numbers numbers;
  for (const int bits : {8, 16, 32, 64})
    for (const uint64_t step : {-1, 0, 1})
      for (const uint64_t base : {uint64_t{0}, uint64_t{1} << (bits - 1), bits == 64 ? 0 : uint64_t{1} << bits})
        numbers.push_back(base + step);
  std::mt19937_64 random(seed);
  while (numbers.size() < count) numbers.push_back(random() >> (random() % 2 * (random() % 64)));
  std::shuffle(numbers.begin(), numbers.end(), random);
  numbers.resize(count);
  return numbers;
}

Numbers some_floats(unsigned seed, size_t count) {
  Numbers numbers = {0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x800000,   0x7f7fffff, 0xff7fffff,
                     0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40200000, 0xc0200000};
  std::mt19937_64 random(seed);
  while (numbers.size() < count) {
    const auto bits = static_cast<uint32_t>(random());
    // Half of them are about 1, where sums and roundings do something.
    numbers.push_back(random() % 2 ? bits : (bits & 0x80ffffffu) | (0x3c + random() % 8) << 24);
  }
  std::shuffle(numbers.begin(), numbers.end(), random);
  numbers.resize(count);
  return numbers;
}

}  // namespace tenon::tests
