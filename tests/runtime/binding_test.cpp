// SPDX-License-Identifier: Apache-2.0
// Bound inputs and outputs, and runs on the session's own thread.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "support/net.h"

/// Exceptions are counted inside of the C++ library, which is not instrumented: ThreadSanitizer takes the last of two
/// threads that hold one for a writer. It asks by this name.
extern "C" const char* __tsan_default_suppressions() { return "race:std::__exception_ptr::exception_ptr::_M_release"; }

namespace tenon {
namespace {

using namespace test;

class Binding : public ::testing::Test {
 protected:
  Folder folder_;
  Engine engine_ = build_net(folder_, small_net());
  Session session_ = engine_.session();
  Tensor x_ = random_tensor({2, 3, 8, 8}, 1), z_ = random_tensor({3, 3, 8, 8}, 2);

  std::string expected(const Tensor& x) const { return bytes_of(engine_.session().run({{"x", x}})[0]); }
};

TEST_F(Binding, RunsReadAndWriteWhatIsBound) {
  Tensor y(DType::f32, {2, 5});
  session_.bind_input("x", x_);
  session_.bind_output("y", y);
  session_.run();
  EXPECT_TRUE(bytes_of(y) == expected(x_));
  EXPECT_EQ(session_.output(0).data(), y.data());
  // What is bound may get other elements.
  const Tensor other = random_tensor({2, 3, 8, 8}, 9);
  std::memcpy(x_.data(), other.data(), other.bytes());
  session_.run();
  EXPECT_TRUE(bytes_of(y) == expected(other));
}

TEST_F(Binding, MemoryThatIsAlignedToItsElementsIsEnough) {
  std::vector<float> memory(2 * 192 + 16);
  const Tensor odd = Tensor::view(DType::f32, {2, 3, 8, 8}, memory.data() + 1);
  std::memcpy(memory.data() + 1, x_.data(), x_.bytes());
  std::vector<float> result(32, -1);
  session_.bind_input("x", odd);
  session_.bind_output("y", Tensor::view(DType::f32, {2, 5}, result.data() + 3));
  session_.run();
  EXPECT_TRUE(std::string(reinterpret_cast<char*>(result.data() + 3), 40) == expected(x_));
  EXPECT_EQ(result[2], -1);
  EXPECT_EQ(result[13], -1);
}

TEST_F(Binding, UnboundInputsAreTheSessionsOwn) {
  Session session = engine_.session(0, {{"x", {2, 3, 8, 8}}});
  std::memcpy(session.input(0).data(), x_.data(), x_.bytes());
  session.run();
  EXPECT_TRUE(bytes_of(session.output(0)) == expected(x_));
}

TEST_F(Binding, AnEmptyTensorUnbinds) {
  Tensor y(DType::f32, {2, 5});
  session_.bind_input("x", x_);
  session_.bind_output("y", y);
  session_.run();
  session_.bind_output("y", Tensor());
  session_.bind_input("x", z_);
  session_.run();
  EXPECT_TRUE(bytes_of(y) == expected(x_)) << "is left alone";
  EXPECT_TRUE(bytes_of(session_.output(0)) == expected(z_));
}

TEST_F(Binding, OtherRunsLeaveBoundOutputsAlone) {
  Tensor y(DType::f32, {2, 5});
  session_.bind_input("x", x_);
  session_.bind_output("y", y);
  session_.run();
  const Tensor other = random_tensor({2, 3, 8, 8}, 9);
  EXPECT_TRUE(bytes_of(session_.run({{"x", other}})[0]) == expected(other));
  std::vector<Tensor> inputs{other}, outputs(1);
  session_.run(inputs, outputs);
  session_.profile(inputs, 1);
  EXPECT_TRUE(bytes_of(outputs[0]) == expected(other));
  EXPECT_TRUE(bytes_of(y) == expected(x_));
}

TEST_F(Binding, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([&] { session_.bind_input("z", x_); }), "usage: the model has no input \"z\"");
  EXPECT_EQ(error_of([&] { session_.bind_output("z", x_); }), "usage: the model has no output \"z\"");
  EXPECT_EQ(error_of([&] { session_.bind_input("x", Tensor(DType::u8, {1})); }),
            "usage: input \"x\" is of type u8, the model takes f32");
  EXPECT_EQ(error_of([&] { session_.bind_output("y", Tensor(DType::u8, {1})); }),
            "usage: output \"y\" cannot be bound to u8, it is f32");
  EXPECT_EQ(error_of([&] {
              session_.bind_output("y", Tensor::view(DType::f32, {2, 5}, {1, 2}, x_.data()));
            }),
            "usage: output \"y\" cannot be bound to that memory, it is not dense");
  EXPECT_EQ(error_of([&] {
              session_.bind_input("x", Tensor::view(DType::f32, {1, 3, 8, 8}, Dims(), nullptr, "cuda"));
            }),
            "usage: input \"x\" lies on cuda, the engine runs on cpu");
  EXPECT_EQ(error_of([&] { session_.output(0); }), "usage: nothing was run yet");
  session_.bind_input("x", x_);
  session_.bind_output("y", Tensor(DType::f32, {3, 5}));
  EXPECT_EQ(error_of([&] { session_.run(); }), "usage: output 0 is bound to a tensor 3x5, the run gives 2x5");
}

/// An output that is an input, a constant, or another output's elements once more.
TEST_F(Binding, OutputsWithoutStorageOfTheirOwnAreCopied) {
  const Folder folder;
  const Engine engine = build_net(
      folder, model(input("x", {2, 4}) + node("a", "Relu", {"x"}, {"a"}) + node("i", "Identity", {"x"}, {"i"}) +
                    node("r", "Flatten", {"a"}, {"r"}) + output("a") + output("r") + output("i")));
  Session session = engine.session();
  const Tensor x = random_tensor({2, 4}, 1);
  const std::vector<Tensor> expected = session.run({{"x", x}});
  std::vector<Tensor> bound;
  session.bind_input("x", x);
  for (size_t at = 0; at < 3; ++at) {
    bound.emplace_back(DType::f32, expected[at].dims());
    session.bind_output(engine.outputs()[at].name, bound[at]);
  }
  session.run();
  for (size_t at = 0; at < 3; ++at) EXPECT_TRUE(bytes_of(bound[at]) == bytes_of(expected[at])) << at;
}

TEST_F(Binding, OutputsOfRunsAreTensorsOfTheirOwn) {
  const Tensor first = session_.run({{"x", x_}})[0];
  const std::string before = bytes_of(first);
  session_.run({{"x", random_tensor({2, 3, 8, 8}, 5)}});
  EXPECT_TRUE(bytes_of(first) == before);
}

TEST_F(Binding, InputsAreLetGoAfterARun) {
  auto owner = std::make_shared<int>();
  session_.run({{"x", Tensor::view(DType::f32, x_.dims(), x_.data(), owner)}});
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(Binding, AsyncRunsGiveTheirOwnResultsInOrder) {
  std::vector<std::future<std::vector<Tensor>>> futures;
  std::vector<std::string> wanted;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tensor x = random_tensor({1 + seed % 3, 3, 8, 8}, seed);
    wanted.push_back(expected(x));
    futures.push_back(session_.run_async({{"x", x}}));
  }
  for (size_t at = 0; at < futures.size(); ++at) EXPECT_TRUE(bytes_of(futures[at].get()[0]) == wanted[at]) << at;
  EXPECT_TRUE(bytes_of(session_.run({{"x", x_}})[0]) == expected(x_)) << "the session is free again";
}

TEST_F(Binding, WhatAnAsyncRunThrowsComesWithItsFuture) {
  auto wrong = session_.run_async({{"z", x_}});
  auto right = session_.run_async({{"x", x_}});
  EXPECT_EQ(error_of([&] { wrong.get(); }), "usage: input \"x\" is missing");
  EXPECT_TRUE(bytes_of(right.get()[0]) == expected(x_));
}

TEST_F(Binding, TheSessionIsRefusedWhileAsyncRunsAreUnderWay) {
  std::promise<void> may_end;
  session_.run_async({{"x", x_}}, [&](std::vector<Tensor>, std::exception_ptr) {});
  auto blocked = std::async(std::launch::async, [&] { may_end.get_future().wait(); });
  std::promise<void> begun;
  Session other = engine_.session();
  other.run_async({{"x", x_}}, [&](std::vector<Tensor>, std::exception_ptr) { begun.set_value(), blocked.wait(); });
  auto behind = other.run_async({{"x", x_}});
  begun.get_future().wait();
  EXPECT_EQ(error_of([&] { other.run({{"x", x_}}); }), "usage: a session is used while its run_async is under way");
  may_end.set_value();
  EXPECT_TRUE(bytes_of(behind.get()[0]) == expected(x_));
}

TEST_F(Binding, SessionsWaitForTheirRunsWhenTheyEnd) {
  std::atomic<int> done{0};
  {
    Session session = engine_.session();
    for (int at = 0; at < 10; ++at)
      session.run_async({{"x", x_}}, [&](std::vector<Tensor> outputs, std::exception_ptr error) {
        done += !error && outputs.size() == 1;
      });
    Session moved = std::move(session);
  }
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace tenon
