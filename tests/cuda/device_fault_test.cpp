// SPDX-License-Identifier: Apache-2.0
// A kernel that writes where it must not: the run ends with the step's name, and so does everything that follows on
// that device. A program of its own, as its process can use the GPU no more.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <chrono>
#include <functional>

#include "backends/cuda/runtime/simple_step.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

struct Params {
  cuda::Address x, y;
  int count;
};

const char* const wild_text = R"(
struct Params {
  const float* x;
  float* y;
  int count;
};
extern "C" __global__ void wild(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  p.y[i] = p.x[i];
  if (p.x[i] > 100.f) *(volatile float*)64 = 1.f;
}
)";

/// Takes every LogSoftmax before others do. It copies, and goes astray where a number is above 100.
const cuda::KernelRegistrar wild(
    {"LogSoftmax", "wild", 99, [](const cuda::Problem&, const cuda::Properties&) { return backends::Reason(); },
     [](const cuda::Problem&, const cuda::Properties&) {
       return std::vector<cuda::Tactic>{{"wild", {{"wild.cu", {}, wild_text}}, {}}};
     },
     [](const cuda::Problem& problem, cuda::Device& device, const cuda::Tactic& tactic) {
       const auto count = static_cast<int>(problem.outputs[0].dims.elements());
       return cuda::simple_step<1>(device, tactic, "wild", Params{0, 0, count}, cuda::grid_for(count));
     }});

/// Two convolutions, the step that goes astray and two more behind it.
std::string net() {
  const std::string pads = integers("pads", {1, 1, 1, 1});
  return model(input("x", {1, 3, 16, 16}) + random_weights("w1", {8, 3, 3, 3}, 1) +
               random_weights("w2", {8, 8, 3, 3}, 2) + random_weights("w3", {8, 8, 3, 3}, 3) +
               node("first", "Conv", {"x", "w1"}, {"a"}, pads) + node("second", "Conv", {"a", "w2"}, {"b"}, pads) +
               node("astray", "LogSoftmax", {"b"}, {"c"}, integer("axis", 1)) +
               node("third", "Conv", {"c", "w3"}, {"d"}, pads) + node("last", "Softmax", {"d"}, {"y"}) + output("y"));
}

std::string text_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::internal);
    return error.text();
  }
  return "none";
}

TEST(DeviceFault, EndsTheRunAndTheDeviceByName) {
  if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
  if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  const Folder folder;
  BuildOptions options = quick_build();
  options.device = "cuda";
  const Engine engine = build_net(folder, net(), options);
  Session session = engine.session(), other = engine.session();
  const Tensor x = random_tensor({1, 3, 16, 16}, 7);
  for (int turn = 0; turn < 3; ++turn) session.run({{"x", x}});
  other.run({{"x", x}});

  Tensor large = x.copy();
  for (int64_t at = 0; at < large.elements(); ++at) large.data<float>()[at] *= 1e6f;
  const auto begin = std::chrono::steady_clock::now();
  const std::string words = text_of([&] { session.run({{"x", large}}); });
  EXPECT_NE(words.find("LogSoftmax astray, kernel \"wild\""), std::string::npos) << words;
  EXPECT_EQ(words.find(", or "), std::string::npos) << words;
  EXPECT_NE(words.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << words;
  // Runs, sessions and builds that follow end at once with the same words.
  EXPECT_EQ(text_of([&] { session.run({{"x", x}}); }), words);
  EXPECT_EQ(text_of([&] { other.run({{"x", x}}); }), words);
  EXPECT_EQ(text_of([&] { engine.session(); }), words);
  EXPECT_EQ(text_of([&] { session.device_times(1); }), words);
  const Tensor own[1];
  EXPECT_EQ(text_of([&] { session.enqueue(own, own, nullptr); }), words);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tenon
