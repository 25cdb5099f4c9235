// SPDX-License-Identifier: Apache-2.0
// Tensors in a GPU's memory as inputs and outputs of sessions: bound, enqueued, and what is refused.
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

class DeviceBinding : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
    if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
    BuildOptions options = quick_build();
    options.device = "cuda";
    session_ = std::make_unique<Session>(build_net(folder_, small_net(2), options).session());
    expected_ = bytes_of(session_->run({{"x", x_}})[0]);
    in_ = cuda::Buffer(x_.bytes()), out_ = cuda::Buffer(expected_.size());
    in_.upload(x_.data(), x_.bytes());
  }
  std::string result() const {
    std::string bytes(expected_.size(), '\0');
    cuda::check(cuda::driver().MemcpyDtoH(bytes.data(), out_.address(), bytes.size()), "cuMemcpyDtoH");
    return bytes;
  }

  Folder folder_;
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

}  // namespace
}  // namespace tenon
