// SPDX-License-Identifier: Apache-2.0
// Tensors in a GPU's memory as inputs and outputs of sessions: bound, enqueued, used in place, and what is refused.
#include <gtest/gtest.h>

#include "backends/cuda/runtime/compiler.h"
#include "backends/cuda/runtime/timing.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

Tensor on_device(cuda::Address address, const Dims& dims, const Device& device = "cuda") {
  return Tensor::view(DType::f32, dims, Dims(), reinterpret_cast<void*>(address), device);
}

BuildOptions on_gpu() {
  BuildOptions options = quick_build();
  options.device = "cuda";
  return options;
}

class DeviceInPlace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
    if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  }
  Folder folder_;
};

class DeviceBinding : public DeviceInPlace {
 protected:
  void SetUp() override {
    DeviceInPlace::SetUp();
    if (IsSkipped()) return;
    session_ = std::make_unique<Session>(build_net(folder_, small_net(2), on_gpu()).session());
    expected_ = bytes_of(session_->run({{"x", x_}})[0]);
    in_ = cuda::Buffer(x_.bytes()), out_ = cuda::Buffer(expected_.size());
    in_.upload(x_.data(), x_.bytes());
  }
  std::string result() const {
    std::string bytes(expected_.size(), '\0');
    cuda::check(cuda::driver().MemcpyDtoH(bytes.data(), out_.address(), bytes.size()), "cuMemcpyDtoH");
    return bytes;
  }

  Tensor x_ = random_tensor({2, 3, 8, 8}, 7);
  std::unique_ptr<Session> session_;
  std::string expected_;
  cuda::Buffer in_, out_;
};

TEST_F(DeviceBinding, RunsReadAndWriteWhatIsBound) {
  session_->bind_input("x", on_device(in_.address(), x_.dims()));
  session_->bind_output("y", on_device(out_.address(), {2, 5}));
  session_->run();
  EXPECT_EQ(session_->output(0).data(), reinterpret_cast<void*>(out_.address()));
  EXPECT_TRUE(result() == expected_);
  const cuda::Clock clock;
  out_.clear();
  session_->enqueue(clock.stream());
  clock.synchronise();
  EXPECT_TRUE(result() == expected_);
}

TEST_F(DeviceBinding, EitherEndMayLieInTheProcess) {
  Tensor host(DType::f32, {2, 5});
  session_->bind_input("x", on_device(in_.address(), x_.dims()));
  session_->bind_output("y", host);
  session_->run();
  EXPECT_TRUE(bytes_of(host) == expected_);
  session_->bind_input("x", x_);
  session_->bind_output("y", on_device(out_.address(), {2, 5}));
  session_->run();
  EXPECT_TRUE(result() == expected_);
}

TEST_F(DeviceBinding, RefusesWhatDoesNotFit) {
  const cuda::Clock clock;
  const Tensor own[1];
  const auto refusal = [&](const Tensor& input) {
    return error_of([&] { session_->enqueue(std::span(&input, 1), own, clock.stream()); });
  };
  EXPECT_EQ(refusal(x_), "usage: input 0 is not on cuda");
  EXPECT_EQ(refusal(on_device(in_.address(), {1, 3, 8, 8})),
            "usage: input 0 is 1x3x8x8, the session was made for 2x3x8x8");
  EXPECT_EQ(refusal(on_device(in_.address(), x_.dims(), "cuda:7")),
            "usage: input \"x\" lies on cuda:7, the engine runs on cuda");
  EXPECT_EQ(refusal(Tensor::view(DType::i32, x_.dims(), Dims(), session_->device_input(0).data(), "cuda")),
            "usage: input \"x\" is of type i32, the model takes f32");
}

cuda::Address place_of(const Tensor& tensor) { return reinterpret_cast<cuda::Address>(tensor.data()); }

/// Memory of the device with these elements.
cuda::Buffer uploaded(const Tensor& tensor) {
  cuda::Buffer buffer(tensor.bytes());
  buffer.upload(tensor.data(), tensor.bytes());
  return buffer;
}

std::string downloaded(cuda::Address from, size_t bytes) {
  std::string text(bytes, '\0');
  cuda::check(cuda::driver().CtxSynchronize(), "cuCtxSynchronize");
  cuda::check(cuda::driver().MemcpyDtoH(text.data(), from, bytes), "cuMemcpyDtoH");
  return text;
}

/// Two kernels, one after the other: the memory of the second one's output serves nothing else.
std::string two_steps() {
  return model(input("x", {2, 64}) + random_weights("w", {64, 64}, 1) + node("product", "MatMul", {"x", "w"}, {"a"}) +
               node("soft", "Softmax", {"a"}, {"y"}, integer("axis", -1)) + output("y"));
}

/// From the second run on: the session's own input and output stay as they are.
TEST_F(DeviceInPlace, MemoryOfTheCallerIsReadAndWrittenInPlace) {
  Session session = build_net(folder_, two_steps(), on_gpu()).session();
  const cuda::Clock clock;
  const cuda::Address own_input = place_of(session.device_input(0)), own = place_of(session.device_output(0));
  for (const bool on_stream : {true, false}) {
    const Tensor x = random_tensor({2, 64}, on_stream ? 7 : 8), z = random_tensor({2, 64}, 9);
    const std::string expected = bytes_of(session.run({{"x", x}})[0]), other = bytes_of(session.run({{"x", z}})[0]);
    const size_t bytes = expected.size();
    const cuda::Buffer in = uploaded(x), in_turn = uploaded(z), out(bytes), out_turn(bytes);
    const auto run = [&](const cuda::Buffer& from, const cuda::Buffer& to) {
      const Tensor inputs[] = {on_device(from.address(), x.dims())};
      const Tensor outputs[] = {on_device(to.address(), {2, 64})};
      if (on_stream) return session.enqueue(inputs, outputs, clock.stream());
      session.bind_input("x", inputs[0]), session.bind_output("y", outputs[0]);
      session.run();
    };
    for (int turn = 0; turn < 3; ++turn) {
      if (turn > 0) {
        downloaded(own, 1);  // what was put on the stream is done
        cuda::check(cuda::driver().MemsetD8(own_input, 0xa5, x.bytes()), "cuMemsetD8");
        cuda::check(cuda::driver().MemsetD8(own, 0xa5, bytes), "cuMemsetD8");
      }
      run(in, out), run(in_turn, out_turn);
      EXPECT_TRUE(downloaded(out.address(), bytes) == expected) << "turn " << turn;
      EXPECT_TRUE(downloaded(out_turn.address(), bytes) == other) << "turn " << turn;
    }
    EXPECT_TRUE(downloaded(own_input, x.bytes()) == std::string(x.bytes(), '\xa5')) << "copied, stream " << on_stream;
    EXPECT_TRUE(downloaded(own, bytes) == std::string(bytes, '\xa5')) << "copied, stream " << on_stream;
  }
}

/// An output over the input, places between two boundaries, and more sets of places than are kept.
TEST_F(DeviceInPlace, PlacesThatCannotBeUsedAsTheyAreAreCopied) {
  const std::string net = model(input("x", {2, 64}) + random_weights("w", {64, 64}, 1) +
                                node("product", "MatMul", {"x", "w"}, {"a"}) +
                                node("soft", "Softmax", {"a"}, {"b"}, integer("axis", -1)) +
                                node("sum", "Add", {"b", "x"}, {"y"}) + output("y"));
  Session session = build_net(folder_, net, on_gpu()).session();
  const Tensor x = random_tensor({2, 64}, 7);
  const std::string expected = bytes_of(session.run({{"x", x}})[0]);
  const size_t bytes = x.bytes();
  const cuda::Buffer memory(64 * bytes);
  const cuda::Clock clock;
  const auto run = [&](size_t from, size_t to) {
    const cuda::Address in = memory.address() + from, out = memory.address() + to;
    cuda::check(cuda::driver().MemcpyHtoD(in, x.data(), bytes), "cuMemcpyHtoD");
    const Tensor inputs[] = {on_device(in, x.dims())}, outputs[] = {on_device(out, x.dims())};
    session.enqueue(inputs, outputs, clock.stream());
    EXPECT_TRUE(downloaded(out, bytes) == expected) << "from " << from << " to " << to;
  };
  for (int turn = 0; turn < 3; ++turn) {
    run(0, 0), run(0, 256), run(512, 256), run(4, 2048), run(0, 2052);
    for (size_t at = 2; at < 2 + 20; ++at) run(0, at * bytes);
  }
}

}  // namespace
}  // namespace tenon
