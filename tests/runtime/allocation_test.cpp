// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "../ops/case.h"
#include "base/thread_pool.h"
#include "support/loops.h"

/// Steady state allocates nothing: every malloc and operator new of this program is counted, on all threads.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENON_COUNTS_MALLOC 0
#else
#define TENON_COUNTS_MALLOC 1
#endif

namespace {
std::atomic<int64_t> allocations{0};
}

#if TENON_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) { return ++allocations, __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return ++allocations, __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return ++allocations, __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) { return ++allocations, __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return ++allocations, __libc_memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : 12;
}
}
#endif

namespace tenon {
namespace {

using namespace test;

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TENON_COUNTS_MALLOC) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  }
  /// Of ten runs on bound tensors after two.
  static int64_t count_bound(const Engine& engine, Session& session, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& outputs) {
    for (size_t at = 0; at < inputs.size(); ++at) session.bind_input(engine.inputs()[at].name, inputs[at]);
    for (size_t at = 0; at < outputs.size(); ++at) session.bind_output(engine.outputs()[at].name, outputs[at].copy());
    for (int turn = 0; turn < 2; ++turn) session.run();
    const int64_t before = allocations;
    for (int turn = 0; turn < 10; ++turn) session.run();
    return allocations - before;
  }
  /// Allocations of ten runs after two, as often on bound tensors.
  static int64_t count(const Engine& engine, int threads) {
    Session session = engine.session(threads);
    std::vector<Tensor> inputs, outputs(engine.outputs().size());
    for (const TensorInfo& info : engine.inputs()) {
      Dims dims;
      for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
      inputs.push_back(random_tensor(dims, 3));
    }
    for (int turn = 0; turn < 2; ++turn) session.run(inputs, outputs);
    const int64_t before = allocations;
    for (int turn = 0; turn < 10; ++turn) session.run(inputs, outputs);
    const int64_t unbound = allocations - before;
    return unbound + count_bound(engine, session, inputs, outputs);
  }
};

TEST_F(Allocations, AreCounted) {
  const int64_t before = allocations;
  void* volatile memory = ::operator new(10);
  ::operator delete(memory);
  EXPECT_EQ(allocations - before, 1);
}

TEST_F(Allocations, NoneInTheSmallNet) {
  const Folder folder;
  const Engine engine = build_net(folder, small_net());
  for (int threads = 1; threads <= 3; ++threads) EXPECT_EQ(count(engine, threads), 0) << threads;
}

TEST_F(Allocations, NoneInLoops) {
  const Folder folder;
  for (const int64_t size : {16, 200}) {
    const Engine engine = build_net(folder, loop_net(size, 5));
    for (int threads = 1; threads <= 2; ++threads) EXPECT_EQ(count(engine, threads), 0) << size << " " << threads;
  }
}

TEST_F(Allocations, NoneInTheDetector) {
  const std::string detector = TENON_SOURCE_DIR "/samples/detector.onnx";
  if (!std::filesystem::exists(detector)) GTEST_SKIP() << "samples/detector.onnx is absent";
  EXPECT_EQ(count(build(detector, quick_build()), 2), 0);
}

TEST_F(Allocations, NoneInModelsOfTheShelf) {
  const std::string models = TENON_SOURCE_DIR "/../shared/data/models/";
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "the shared models are absent";
  for (const char* model : {"classify/cifar10_resnet8_fp32.onnx", "classify/mnist-8.onnx",
                            "classify/squeezenet1.1_fp32.onnx", "detect/yolox_nano.onnx", "face/yunet_2023mar.onnx"})
    EXPECT_EQ(count(build(models + model, quick_build()), 2), 0) << model;
}

/// Every kernel of the CPU, on the tables that test its results.
TEST_F(Allocations, NoneInAnyKernel) {
  for (const tests::Case& one : tests::read_cases(TENON_SOURCE_DIR "/tests/ops")) {
    const std::vector<Tensor> expected = tests::reference(one);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (kernel == &backends::reference_kernel()) continue;
      const backends::Problem problem = tests::problem_of(one, expected, 2, tests::Gaps::none);
      if (backends::refusal(*kernel, problem)) continue;
      const auto step = kernel->make(problem);
      std::vector<Tensor> outputs;
      std::vector<std::byte*> from, to;
      for (const Tensor& operand : one.operands)
        from.push_back(operand ? const_cast<std::byte*>(operand.data<std::byte>()) : nullptr);
      for (const Tensor& tensor : expected)
        outputs.emplace_back(tensor.dtype(), tensor.dims()), to.push_back(outputs.back().data<std::byte>());
      const Tensor workspace(DType::u8, {static_cast<int64_t>(step->workspace_bytes()) + 1});
      ThreadPool thread_pool(problem.threads, Denormals::flushed, Helpers::all);
      struct Context {
        backends::Step& step;
        std::byte **from, **to;
      } context{*step, from.data(), to.data()};
      const auto run = [&] {
        thread_pool.run([](void* opaque, const Worker& worker) {
          auto& all = *static_cast<Context*>(opaque);
          all.step.run(all.from, all.to, worker);
        }, &context, const_cast<std::byte*>(workspace.data<std::byte>()));
      };
      run();
      const int64_t before = allocations;
      run();
      EXPECT_EQ(allocations - before, 0) << kernel->name << ": " << one.name();
    }
  }
}

}  // namespace
}  // namespace tenon
