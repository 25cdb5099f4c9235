// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "backends/backend.h"
#include "ops/op.h"
#include "plan/plan.h"
#include "runtime/program.h"
#include "support/net.h"

using namespace tenon;
using test::bytes_of;
using test::random_tensor;

namespace {

/// A recurrent layer, whose threads meet twice in each of its steps, between products and elementwise steps.
ir::Graph network() {
  ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : f32[24,2,40]\nconst %w : f32[1,192,40] = @0\nconst %r : f32[1,192,64] = @1\n"
      "const %a : f32[64,256] = @2\nconst %b : f32[256,48] = @3\n"
      "%y : f32[T,D,N,H], %h : f32[D,N,H] = GRU(%x, %w, %r) {hidden_size=64}\n"
      "%p : f32[T,D,N,P] = MatMul(%y, %a)\n%e : f32[T,D,N,P] = Erf(%p)\n%q : f32[T,D,N,Q] = MatMul(%e, %b)\n"
      "%s : f32[T,D,N,Q] = Softmax(%q) {axis=-1}\noutput %s as \"s\"\noutput %h as \"h\"\n",
      {random_tensor({1, 192, 40}, 1), random_tensor({1, 192, 64}, 2), random_tensor({64, 256}, 3),
       random_tensor({256, 48}, 4)});
  ops::infer(graph);
  return graph;
}

/// A program on threads of its own.
class Caller {
 public:
  Caller(const plan::Plan& plan, int threads) : thread_pool_(threads), program_(plan, {}, thread_pool_), outputs_(2) {}
  ThreadPool& thread_pool() { return thread_pool_; }
  std::string run(const Tensor& x) {
    program_.run(std::vector<Tensor>{x}, outputs_);
    return bytes_of(outputs_[0]) + bytes_of(outputs_[1]);
  }

 private:
  ThreadPool thread_pool_;
  runtime::Program program_;
  std::vector<Tensor> outputs_;
};

plan::Plan plan_for(int threads) {
  plan::Plan plan;
  plan.graph = network();
  plan.threads = threads;
  return plan;
}

/// The calling thread, and those it makes, share one CPU while this lives.
class OneCpu {
 public:
  OneCpu() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OneCpu() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace

TEST(SharedCores, ManySessionsOnOneCpuGoOnAndAreRight) {
  const OneCpu one;
  const Tensor x = random_tensor({24, 2, 40}, 9);
  const plan::Plan plan = plan_for(4);
  const std::string right = Caller(plan_for(1), 1).run(x);
  std::atomic<int> wrong{0}, done{0};
  std::vector<std::thread> callers;
  for (int at = 0; at < 6; ++at)
    callers.emplace_back([&] {
      Caller caller(plan, 4);
      for (int turn = 0; turn < 200; ++turn) {
        if (caller.run(x) != right) ++wrong;
        ++done;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(done, 6 * 200);
}

TEST(SharedCores, BitsDoNotDependOnWhoTakesPart) {
  const Tensor x = random_tensor({24, 2, 40}, 9);
  const std::string right = Caller(plan_for(1), 1).run(x);
  for (int threads : {2, 3, 5}) {
    const plan::Plan plan = plan_for(threads);
    Caller caller(plan, threads);
    for (int turn = 0; turn < 60; ++turn) {
      caller.thread_pool().admit(1 + turn % threads);
      ASSERT_TRUE(caller.run(x) == right) << threads << " threads, turn " << turn;
    }
  }
}
