// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

const char* const detector = TENON_SOURCE_DIR "/samples/detector.onnx";

class SessionTest : public ::testing::Test {
 protected:
  Folder folder_;
};

/// Runs with 1 to 4 threads must give the same bits.
void expect_same_bits(const Engine& engine, const std::map<std::string, Tensor>& inputs) {
  std::vector<std::string> alone;
  for (int threads = 1; threads <= 4; ++threads) {
    Session session = engine.session(threads);
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<Tensor> outputs = session.run(inputs);
      for (size_t at = 0; at < outputs.size(); ++at) {
        if (alone.size() == at) alone.push_back(bytes_of(outputs[at]));
        EXPECT_TRUE(bytes_of(outputs[at]) == alone[at]) << threads << " threads, turn " << turn << ", output " << at;
      }
    }
  }
}

TEST_F(SessionTest, BitsDoNotDependOnThreads) {
  expect_same_bits(build_net(folder_, small_net()), {{"x", random_tensor({1, 3, 8, 8}, 4)}});
}

TEST_F(SessionTest, BitsOfTheDetectorDoNotDependOnThreads) {
  if (!std::filesystem::exists(detector)) GTEST_SKIP() << "samples/detector.onnx is absent";
  const Engine engine = build(detector, quick_build());
  const TensorInfo info = engine.inputs()[0];
  Dims dims;
  for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
  expect_same_bits(engine, {{info.name, random_tensor(dims, 4)}});
}

TEST_F(SessionTest, BatchDoesNotChangeAnElement) {
  const Engine engine = build_net(folder_, small_net());
  Session session = engine.session();
  const Tensor four = random_tensor({4, 3, 8, 8}, 7);
  const Tensor all = session.run({{"x", four}})[0];
  for (int64_t at = 0; at < 4; ++at) {
    Tensor one(DType::f32, {1, 3, 8, 8});
    std::copy_n(four.data<float>() + at * 192, 192, one.data<float>());
    const Tensor alone = session.run({{"x", one}})[0];
    for (int64_t k = 0; k < 5; ++k) EXPECT_NEAR(alone.data<float>()[k], all.data<float>()[at * 5 + k], 1e-6);
  }
}

TEST_F(SessionTest, SizesMayChangeFromRunToRun) {
  const Engine engine = build_net(folder_, small_net());
  Session session = engine.session();
  for (int64_t batch : {1, 3, 0, 7, 1, 2, 5, 6, 3})
    EXPECT_EQ(session.run({{"x", random_tensor({batch, 3, 8, 8}, 1)}})[0].dims(), (Dims{batch, 5}));
}

TEST_F(SessionTest, RefusesWhatTheModelDoesNotTake) {
  const Engine engine = build_net(folder_, small_net());
  Session session = engine.session();
  const Tensor x = random_tensor({1, 3, 8, 8}, 1);
  EXPECT_EQ(error_of([&] { session.run({}); }), "usage: input \"x\" is missing");
  EXPECT_EQ(error_of([&] { session.run({{"x", x}, {"z", x}}); }), "usage: the model has no input \"z\"");
  EXPECT_EQ(error_of([&] {
              session.run({{"x", Tensor(DType::u8, {1, 3, 8, 8})}});
            }),
            "usage: input \"x\" is of type u8, the model takes f32");
  EXPECT_EQ(error_of([&] {
              session.run({{"x", Tensor()}});
            }),
            "usage: input \"x\" is of type undefined, the model takes f32");
  EXPECT_EQ(error_of([&] {
              session.run({{"x", random_tensor({1, 3, 9, 8}, 1)}});
            }),
            "usage: input \"x\" is given [1,3,9,8], the model expects [n1,3,8,8]");
  EXPECT_EQ(error_of([&] {
              session.run({{"x", random_tensor({3, 8, 8}, 1)}});
            }),
            "usage: input \"x\" is given [3,8,8], the model expects [n1,3,8,8]");
  std::vector<Tensor> none, outputs(1);
  EXPECT_EQ(error_of([&] { session.run(none, outputs); }), "usage: the engine takes 1 input and gives 1 output");
  EXPECT_EQ(error_of([&] { engine.session(-1); }), "usage: cannot run on -1 threads");
  EXPECT_EQ(error_of([&] { engine.session(1025); }), "usage: cannot run on 1025 threads");
  EXPECT_EQ(engine.session(300).threads(), 300);
  EXPECT_EQ(error_of([&] { Tensor(DType::f32, {2, 3}).reshaped({5}); }), "usage: a tensor 2x3 cannot take the shape 5");
  BuildOptions many = quick_build();
  many.threads = 1025;
  EXPECT_EQ(error_of([&] { build_net(folder_, small_net(), many); }), "usage: cannot run on 1025 threads");
  EXPECT_EQ(error_of([&] { engine.session(1, {{"z", {1}}}); }), "usage: the model has no input \"z\"");
  EXPECT_EQ(session.run({{"x", x}}).size(), 1u) << "a refused run leaves the session whole";
}

TEST_F(SessionTest, AStepThatFailsEndsTheRunAndNotTheSession) {
  // Gather is checked by the reference kernel, between steps that all threads share.
  const std::string net = model(input("x", {1, 8}) + input("i", {1}, i64) + node("a", "Relu", {"x"}, {"a"}) +
                                node("g", "Gather", {"a", "i"}, {"b"}, integer("axis", 1)) +
                                node("r", "Sigmoid", {"b"}, {"y"}) + output("y"));
  const Engine engine = build_net(folder_, net);
  for (int threads : {1, 2, 4}) {
    Session session = engine.session(threads);
    const auto at = [&](int64_t index) {
      return session.run({{"x", random_tensor({1, 8}, 1)},
                          {"i", Tensor::of<int64_t>(DType::i64, Dims{1}, std::vector<int64_t>{index})}});
    };
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(error_of([&] { at(8); }),
                "invalid_model: node \"g\" (Gather) is invalid, index 8 is outside an axis of size 8")
          << threads;
      EXPECT_EQ(at(7)[0].dims(), (Dims{1, 1}));
    }
  }
}

TEST_F(SessionTest, TwoThreadsAtOnceAreRefused) {
  const Engine engine = build_net(folder_, small_net());
  Session session = engine.session(1);
  const Tensor x = random_tensor({64, 3, 8, 8}, 1);
  std::atomic<int> refused{0}, done{0}, other{0};
  const auto work = [&] {
    for (int turn = 0; turn < 200; ++turn) {
      const std::string error = error_of([&] { session.run({{"x", x}}); });
      (error == "none" ? done : error == "usage: two threads use one session at the same time" ? refused : other)++;
    }
  };
  for (int attempt = 0; attempt < 50 && refused == 0; ++attempt) {
    std::thread first(work), second(work);
    first.join(), second.join();
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(done, 0);
  EXPECT_EQ(other, 0);
}

TEST_F(SessionTest, ManySessionsShareAnEngine) {
  const Engine engine = build_net(folder_, small_net());
  const Tensor x = random_tensor({1, 3, 8, 8}, 1);
  const std::string expected = bytes_of(engine.session(1).run({{"x", x}})[0]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int at = 0; at < 8; ++at)
    threads.emplace_back([&, at] {
      for (int turn = 0; turn < 5; ++turn) {
        Session session = engine.session(1 + at % 2);
        for (int run = 0; run < 5; ++run) wrong += bytes_of(session.run({{"x", x}})[0]) != expected;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

/// Bytes of this process that are in memory.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(SessionTest, SessionsOfAnEngineHaveOneCopyOfItsWeights) {
  const int64_t size = 2048, weights = size * size * 4;
  const Engine engine = build_net(folder_, model(input("x", {1, size}) + random_weights("w", {size, size}, 1) +
                                                 node("m", "MatMul", {"x", "w"}, {"y"}) + output("y")));
  const int64_t before = resident_bytes();
  const Session first = engine.session(1);
  const int64_t with_one = resident_bytes();
  EXPECT_GT(with_one - before, weights / 2) << "packed weights are a copy";
  const Session second = engine.session(1);
  EXPECT_LT(resident_bytes() - with_one, weights / 4);
}

TEST_F(SessionTest, AnArenaBeyondTheLimitIsRefused) {
  const Engine engine = build_net(folder_, small_net());
  set_limits({.memory_bytes = 1 << 20});
  Session session = engine.session();
  const std::string error = error_of([&] {
    session.run({{"x", Tensor::view(DType::f32, {1'000'000, 3, 8, 8}, nullptr)}});
  });
  set_limits({});
  EXPECT_EQ(error.rfind("resource: the model needs more memory than the limit allows", 0), 0u) << error;
}

}  // namespace
}  // namespace tenon
