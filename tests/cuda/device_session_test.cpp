// SPDX-License-Identifier: Apache-2.0
// Sessions on a GPU: runs on a stream of the caller, memory of the session, and that making and dropping sessions
// leaves nothing behind. TENON_TEST_CYCLES says how often.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backends/cuda/runtime/compiler.h"
#include "backends/cuda/runtime/timing.h"
#include "support/net.h"

/// What cuBLASLt keeps of its handles is its own; LeakSanitizer asks by this name.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcublasLt"; }

namespace tenon {
namespace {

using namespace test;

const char* const detector = TENON_SOURCE_DIR "/samples/detector.onnx";

BuildOptions on_gpu() {
  BuildOptions options = quick_build();
  options.device = "cuda";
  return options;
}

class DeviceSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
    if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  }
  Folder folder_;
};

int64_t free_bytes() {
  size_t free = 0, all = 0;
  cuda::Device::get(0);
  cuda::check(cuda::driver().CtxSynchronize(), "cuCtxSynchronize");
  cuda::check(cuda::driver().MemGetInfo(&free, &all), "cuMemGetInfo");
  return static_cast<int64_t>(free);
}

Tensor on_device(cuda::Address address, const Dims& dims, const Device& device = "cuda") {
  return Tensor::view(DType::f32, dims, Dims(), reinterpret_cast<void*>(address), device);
}

cuda::Address address_of(const Tensor& tensor) { return reinterpret_cast<cuda::Address>(tensor.data()); }

TEST(Session, RunsOnStreamsNeedAGpu) {
  const Folder folder;
  const Engine engine = build_net(folder, small_net(1));
  Session session = engine.session();
  const Tensor none[1];
  EXPECT_NE(error_of([&] { session.enqueue(none, none, nullptr); }).find("needs an engine on a GPU"),
            std::string::npos);
  EXPECT_FALSE(session.device_input(0));
  EXPECT_FALSE(session.device_output(0));
}

TEST(Session, OwnInputsServeRuns) {
  const Folder folder;
  const Engine engine = build_net(folder, small_net(2));
  Session session = engine.session();
  const Tensor x = random_tensor({2, 3, 8, 8}, 7);
  Tensor own = session.input(0);
  ASSERT_EQ(own.bytes(), x.bytes());
  std::memcpy(own.data(), x.data(), x.bytes());
  const std::string expected = bytes_of(session.run({{"x", x}})[0]);
  EXPECT_TRUE(bytes_of(session.run({{"x", own}})[0]) == expected);
  EXPECT_NE(error_of([&] { session.input(1); }), "none");
}

TEST_F(DeviceSession, RunsOnAStreamGiveTheSameBits) {
  const Engine engine = build_net(folder_, small_net(2), on_gpu());
  Session session = engine.session();
  const Tensor x = random_tensor({2, 3, 8, 8}, 7);
  const std::string expected = bytes_of(session.run({{"x", x}})[0]);
  cuda::Buffer in(x.bytes()), out(expected.size());
  in.upload(x.data(), x.bytes());
  const cuda::Clock clock;
  const auto result = [&](cuda::Address from) {
    std::string bytes(expected.size(), '\0');
    cuda::check(cuda::driver().MemcpyDtoH(bytes.data(), from, bytes.size()), "cuMemcpyDtoH");
    return bytes;
  };
  const Tensor inputs[] = {on_device(in.address(), x.dims())}, outputs[] = {on_device(out.address(), {2, 5})}, own[1];
  for (int turn = 0; turn < 3; ++turn) session.enqueue(inputs, outputs, clock.stream());
  clock.synchronise();
  EXPECT_TRUE(result(out.address()) == expected);
  // The session's own memory, which other work on the device may fill and read.
  cuda::check(cuda::driver().MemsetD8(address_of(session.device_output(0)), 0xa5, expected.size()), "cuMemsetD8");
  cuda::check(cuda::driver().MemcpyHtoD(address_of(session.device_input(0)), x.data(), x.bytes()), "cuMemcpyHtoD");
  cuda::check(cuda::driver().CtxSynchronize(), "cuCtxSynchronize");
  session.enqueue(own, own, clock.stream());
  clock.synchronise();
  EXPECT_TRUE(result(address_of(session.device_output(0))) == expected);
  EXPECT_EQ(session.device_output(0).dims(), (Dims{2, 5}));
}

TEST_F(DeviceSession, PageLockedInputsGiveTheSameBits) {
  const Engine engine = build_net(folder_, small_net(2), on_gpu());
  Session session = engine.session();
  const Tensor x = random_tensor({2, 3, 8, 8}, 7);
  const std::string expected = bytes_of(session.run({{"x", x}})[0]);
  Tensor own = session.input(0);
  std::memcpy(own.data(), x.data(), x.bytes());
  EXPECT_TRUE(bytes_of(session.run({{"x", own}})[0]) == expected);
}

TEST_F(DeviceSession, AnEngineOfTheCpuIsRetuned) {
  const Engine cpu = build_net(folder_, small_net(2));
  BuildOptions options = on_gpu();
  options.precision = Precision::fp16;
  const Engine gpu = retune(cpu, options);
  EXPECT_EQ(gpu.device(), "cuda");
  const Tensor x = random_tensor({2, 3, 8, 8}, 7);
  const Tensor expected = cpu.session().run({{"x", x}})[0], got = gpu.session().run({{"x", x}})[0];
  for (int64_t at = 0; at < got.elements(); ++at) EXPECT_NEAR(got.data<float>()[at], expected.data<float>()[at], 2e-3);
}

TEST_F(DeviceSession, TheDetectorFindsWhatItFindsOnTheCpu) {
  const Engine cpu = build(detector, quick_build()), gpu = build(detector, on_gpu());
  const TensorInfo info = cpu.inputs()[0];
  Dims dims;
  for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
  const Tensor x = random_tensor(dims, 4);
  const auto expected = cpu.session().run({{info.name, x}}), got = gpu.session().run({{info.name, x}});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t output = 0; output < got.size(); ++output)
    for (int64_t at = 0; at < got[output].elements(); ++at) {
      const float a = got[output].data<float>()[at], b = expected[output].data<float>()[at];
      ASSERT_NEAR(a, b, 1e-3 * (1 + std::abs(b))) << "output " << output << " element " << at;
    }
}

/// Tuned: tactics are exchanged inside the network, and branches may run beside each other.
TEST_F(DeviceSession, ATunedDetectorFindsWhatItFindsOnTheCpu) {
  BuildOptions options = on_gpu();
  options.budget_seconds = 4;
  const Engine cpu = build(detector, quick_build());
  const TensorInfo info = cpu.inputs()[0];
  Dims dims;
  for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
  const Tensor x = random_tensor(dims, 4);
  const auto expected = cpu.session().run({{info.name, x}});
  expect_near(build(detector, options).session().run({{info.name, x}}), expected, 1e-3);
}

TEST_F(DeviceSession, TunedProductsGiveWhatTheyGiveOnTheCpu) {
  const std::string net =
      model(input("x", {3, 50, 64}) + random_weights("w", {64, 64}, 1) + node("keys", "MatMul", {"x", "w"}, {"a"}) +
            node("turn", "Transpose", {"a"}, {"t"}, integers("perm", {0, 2, 1})) +
            node("scores", "MatMul", {"a", "t"}, {"s"}) + node("soft", "Softmax", {"s"}, {"p"}, integer("axis", -1)) +
            node("mix", "MatMul", {"p", "a"}, {"y"}) + output("y"));
  const Tensor x = random_tensor({3, 50, 64}, 7);
  const auto expected = build_net(folder_, net).session().run({{"x", x}});
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    BuildOptions options = on_gpu();
    options.precision = precision;
    options.budget_seconds = 4;
    const double tolerance = precision == Precision::fp32 ? 1e-4 : 1e-2;
    expect_near(build_net(folder_, net, options).session().run({{"x", x}}), expected, tolerance);
  }
}

/// Tuned: where it is faster so, a block that widens, convolves and narrows runs as one step.
TEST_F(DeviceSession, TunedBottlenecksGiveWhatTheyGiveOnTheCpu) {
  const std::string net =
      model(input("x", {2, 16, 20, 12}) + random_weights("w1", {64, 16, 1, 1}, 1) +
            random_weights("w2", {64, 1, 3, 3}, 2) + random_weights("w3", {16, 64, 1, 1}, 3) +
            random_weights("w4", {32, 16, 1, 1}, 4) + random_weights("w5", {8, 32, 1, 1}, 5) +
            node("widen", "Conv", {"x", "w1"}, {"a"}) + node("first", "Relu", {"a"}, {"b"}) +
            node("window", "Conv", {"b", "w2"}, {"c"}, integers("pads", {1, 1, 1, 1}) + integer("group", 64)) +
            node("second", "Relu", {"c"}, {"d"}) + node("narrow", "Conv", {"d", "w3"}, {"e"}) +
            node("sum", "Add", {"e", "x"}, {"f"}) + node("behind", "Conv", {"f", "w4"}, {"g"}) +
            node("third", "Relu", {"g"}, {"h"}) + node("last", "Conv", {"h", "w5"}, {"y"}) + output("y"));
  const Tensor x = random_tensor({2, 16, 20, 12}, 7);
  const auto expected = build_net(folder_, net).session().run({{"x", x}});
  BuildOptions options = on_gpu();
  options.precision = Precision::fp16;
  options.budget_seconds = -1;
  expect_near(build_net(folder_, net, options).session().run({{"x", x}}), expected, 1e-2);
}

/// Tuned: where it is faster so, an image's convolution and the max pool of its result run as one step, and the pools
/// of a pyramid.
TEST_F(DeviceSession, TunedPoolsGiveWhatTheyGiveOnTheCpu) {
  const std::string wide = integers("kernel_shape", {5, 5}) + integers("pads", {2, 2, 2, 2});
  const std::string net = model(
      input("x", {2, 3, 22, 27}) + random_weights("w1", {16, 3, 7, 7}, 1) + random_weights("w2", {32, 48, 3, 3}, 2) +
      node("stem", "Conv", {"x", "w1"}, {"a"}, integers("strides", {2, 2}) + integers("pads", {3, 3, 3, 3})) +
      node("act", "Relu", {"a"}, {"b"}) +
      node("pool", "MaxPool", {"b"}, {"c"},
           integers("kernel_shape", {3, 3}) + integers("strides", {2, 2}) + integers("pads", {1, 1, 1, 1})) +
      node("wide", "MaxPool", {"c"}, {"d"}, wide) + node("wider", "MaxPool", {"d"}, {"e"}, wide) +
      node("join", "Concat", {"c", "d", "e"}, {"f"}, integer("axis", 1)) + node("last", "Conv", {"f", "w2"}, {"y"}) +
      output("y"));
  const Tensor x = random_tensor({2, 3, 22, 27}, 7);
  const auto expected = build_net(folder_, net).session().run({{"x", x}});
  BuildOptions options = on_gpu();
  options.precision = Precision::fp16;
  options.budget_seconds = -1;
  expect_near(build_net(folder_, net, options).session().run({{"x", x}}), expected, 1e-2);
}

/// The convolution and the NMS run on the GPU, what follows on the CPU; sizes differ from run to run.
TEST_F(DeviceSession, BoxesAreSuppressedAsOnTheCpu) {
  const std::string net = model(
      input("x", {1, 3, 16, 16}) + random_weights("w", {8, 3, 3, 3}, 1) + numbers("boxes", {1, 4, 256}) +
      numbers("scores", {1, 4, 256}) + numbers("most", {20}) + tensor("overlap", f32, {1}, raw(std::vector{0.4f})) +
      tensor("least", f32, {1}, raw(std::vector{0.3f})) + numbers("first", {4, 4}) + numbers("column", {2}) +
      node("conv", "Conv", {"x", "w"}, {"c"}, integers("pads", {1, 1, 1, 1})) +
      node("sigmoid", "Sigmoid", {"c"}, {"p"}) +
      node("split", "Split", {"p", "first"}, {"a", "b"}, integer("axis", 1)) +
      node("lines", "Reshape", {"a", "boxes"}, {"l"}) +
      node("turn", "Transpose", {"l"}, {"t"}, integers("perm", {0, 2, 1})) +
      node("classes", "Reshape", {"b", "scores"}, {"s"}) +
      node("suppress", "NonMaxSuppression", {"t", "s", "most", "overlap", "least"}, {"rows"}) +
      node("places", "Gather", {"rows", "column"}, {"i"}, integer("axis", 1)) +
      node("pick", "Gather", {"t", "i"}, {"y"}, integer("axis", 1)) + output("rows") + output("y"));
  const Engine cpu = build_net(folder_, net), gpu = build_net(folder_, net, on_gpu());
  Session on_cpu = cpu.session(), session = gpu.session();
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Tensor x = random_tensor({1, 3, 16, 16}, seed);
    const auto expected = on_cpu.run({{"x", x}}), got = session.run({{"x", x}});
    ASSERT_GT(expected[0].dims()[0], 5);
    ASSERT_EQ(got[0].dims(), expected[0].dims());
    EXPECT_TRUE(bytes_of(got[0]) == bytes_of(expected[0]));
    expect_near({got[1]}, {expected[1]}, 1e-5);
  }
  std::string kernels;
  for (const LayerTime& layer : session.profile(std::vector<Tensor>{random_tensor({1, 3, 16, 16}, 1)}, 1))
    kernels += layer.name + ": " + layer.tactic + "\n";
  EXPECT_NE(kernels.find("tenon:BoundedNms suppress: nms"), std::string::npos) << kernels;
  const Tensor none[2];
  EXPECT_NE(error_of([&] { session.enqueue(std::span(none, 1), none, nullptr); }).find("depend on its data"),
            std::string::npos);
}

/// Holds the device's memory but about `left` bytes.
std::vector<cuda::Buffer> all_but(int64_t left) {
  std::vector<cuda::Buffer> held;
  for (auto bytes = static_cast<size_t>(free_bytes()); bytes >= size_t{1} << 20; bytes /= 2) {
    while (free_bytes() > left + static_cast<int64_t>(bytes)) try {
        held.emplace_back(bytes);
      } catch (const Error&) {
        break;
      }
  }
  return held;
}

TEST_F(DeviceSession, AFullDeviceSaysWhatItTakesAndWhatIsFree) {
  const Engine engine = build_net(folder_, small_net(), on_gpu());
  const Shapes shapes{{"x", {200000, 3, 8, 8}}};
  {
    const auto held = all_but(int64_t{64} << 20);
    try {
      engine.session(0, shapes);
      FAIL() << "it fits into " << free_bytes() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::resource);
      const std::string text = error.text();
      for (const char* part : {"the GPU is out of memory", "the arena", "it takes ", " are free", "the engine takes ",
                               " of inputs and ", " of weights"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    // What is small enough still runs.
    engine.session(0, {{"x", {2, 3, 8, 8}}}).run({{"x", random_tensor({2, 3, 8, 8}, 7)}});
  }
  engine.session(0, shapes);
}

TEST_F(DeviceSession, SessionsShareAnArena) {
  const Engine large = build_net(folder_, small_net(16), on_gpu()), small = build_net(folder_, small_net(2), on_gpu());
  const Tensor x = random_tensor({16, 3, 8, 8}, 7), z = random_tensor({2, 3, 8, 8}, 8);
  Session alone = small.session(), first = large.session();
  const std::string expected = bytes_of(alone.run({{"x", z}})[0]), of_first = bytes_of(first.run({{"x", x}})[0]);
  Session second = small.session(first);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(bytes_of(first.run({{"x", x}})[0]) == of_first);
    EXPECT_TRUE(bytes_of(second.run({{"x", z}})[0]) == expected);
  }
  // The arena is that of the first.
  const uint64_t begin = address_of(first.device_output(0)), other = address_of(second.device_output(0));
  EXPECT_LT(other - std::min(begin, other), static_cast<uint64_t>(first.memory().arena_bytes));
  EXPECT_NE(error_of([&] { large.session(alone); }).find("the other's is smaller"), std::string::npos);
  Session on_cpu = build_net(folder_, small_net(2)).session();
  EXPECT_NE(error_of([&] { small.session(on_cpu); }).find("the other is on the CPU"), std::string::npos);
}

/// The limits of the process, put back at the end.
struct Limited {
  explicit Limited(const Limits& limits) { set_limits(limits); }
  ~Limited() { set_limits({}); }
};

TEST_F(DeviceSession, WhatIsStatedIsTakenToTheByte) {
  const Engine engine = build_net(folder_, small_net(), on_gpu());
  const Shapes shapes{{"x", {2000, 3, 8, 8}}};
  const MemoryUse use = engine.session(0, shapes).memory();
  EXPECT_EQ(use.input_bytes, 2000 * 3 * 64 * 4);
  EXPECT_EQ(use.device_bytes, use.arena_bytes + use.input_bytes + use.weights_bytes + use.workspace_bytes);
  const auto session = [&] { engine.session(0, shapes).run({{"x", random_tensor({2000, 3, 8, 8}, 7)}}); };
  {
    const Limited limited({.memory_bytes = use.device_bytes});
    session();
  }
  const Limited limited({.memory_bytes = use.device_bytes - 1});
  EXPECT_NE(error_of(session).find("the limit of memory is reached on the GPU"), std::string::npos)
      << error_of(session);
}

/// By the driver's own count, which goes by pages of 2 MiB.
TEST_F(DeviceSession, WhatIsStatedIsWhatTheDriverCounts) {
  constexpr int64_t page = int64_t{2} << 20;
  const std::string net = model(input("x", {4, 1024, 64, 64}) + random_weights("w", {1024, 1024, 3, 3}, 1) +
                                node("conv", "Conv", {"x", "w"}, {"c"}, integers("pads", {1, 1, 1, 1})) +
                                node("relu", "Relu", {"c"}, {"r"}) + node("tanh", "Tanh", {"r"}, {"y"}) + output("y"));
  const Engine engine = build_net(folder_, net, on_gpu());
  const Tensor x = random_tensor({4, 1024, 64, 64}, 7);
  engine.session().run({{"x", x}});  // what the driver keeps for itself is there after that
  const int64_t before = free_bytes();
  Session session = engine.session();
  const MemoryUse use = session.memory();
  const int64_t made = before - free_bytes();
  session.run({{"x", x}});
  const int64_t ran = before - free_bytes();
  EXPECT_GT(use.weights_bytes, 1024 * 1024 * 9 * 4 - page);
  EXPECT_GE(made, use.device_bytes - page);
  EXPECT_LE(made, use.device_bytes + 4 * page) << "arena, input, weights and workspace";
  EXPECT_EQ(ran, made);
}

/// Lists of more than half a page, each of which took whole pages alone.
TEST_F(DeviceSession, ManyListsOfWeightsLieInOnePiece) {
  constexpr int64_t page = int64_t{2} << 20;
  constexpr int layers = 12;
  std::string net = input("x", {1, 180, 8, 8}), from = "x";
  for (int at = 0; at < layers; ++at) {
    const std::string weights = "w" + std::to_string(at), to = at + 1 < layers ? "c" + std::to_string(at) : "y";
    net += random_weights(weights, {180, 180, 3, 3}, static_cast<unsigned>(at)) +
           node("conv" + std::to_string(at), "Conv", {from, weights}, {to}, integers("pads", {1, 1, 1, 1}));
    from = to;
  }
  const Engine engine = build_net(folder_, model(net + output("y")), on_gpu());
  const Tensor x = random_tensor({1, 180, 8, 8}, 7);
  engine.session().run({{"x", x}});  // what the driver keeps for itself is there after that
  const int64_t before = free_bytes();
  Session session = engine.session();
  const MemoryUse use = session.memory();
  EXPECT_GT(use.weights_bytes, layers * 180 * 180 * 9 * 4);
  EXPECT_LE(before - free_bytes(), use.device_bytes + 4 * page) << "arena, input, weights and workspace";
}

TEST_F(DeviceSession, KernelsKeepToTheLimitOfWorkspace) {
  // A deep product of few pixels, which split kernels take first.
  const std::string net = model(input("x", {1, 2048, 4, 4}) + random_weights("w", {64, 2048, 3, 3}, 1) +
                                node("conv", "Conv", {"x", "w"}, {"y"}, integers("pads", {1, 1, 1, 1})) + output("y"));
  const Tensor x = random_tensor({1, 2048, 4, 4}, 7);
  const auto expected = build_net(folder_, net).session().run({{"x", x}});
  for (const double budget : {0.0, 4.0}) {
    BuildOptions options = on_gpu();
    options.budget_seconds = budget;
    const Limited limited({.workspace_bytes = 1});
    expect_near(build_net(folder_, net, options).session().run({{"x", x}}), expected, 1e-3);
  }
}

TEST_F(DeviceSession, MakingAndDroppingSessionsLeavesNothing) {
  const char* given = std::getenv("TENON_TEST_CYCLES");
  const int cycles = given ? std::atoi(given) : 100;
  build_net(folder_, small_net(2), on_gpu()).save(folder_ / "m.tenon");
  const Tensor x = random_tensor({2, 3, 8, 8}, 7);
  const auto cycle = [&] { Engine::load(folder_ / "m.tenon").session().run({{"x", x}}); };
  for (int at = 0; at < 20; ++at) cycle();  // the driver's own pools fill
  const int64_t before = free_bytes();
  for (int at = 0; at < cycles; ++at) cycle();
  EXPECT_LE(before - free_bytes(), int64_t{4} << 20) << cycles << " cycles";
}

}  // namespace
}  // namespace tenon
