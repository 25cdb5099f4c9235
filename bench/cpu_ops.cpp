// SPDX-License-Identifier: Apache-2.0
// Times every CPU kernel of each case in a .cases file (tests/ops/case.h has its grammar) and prints how much faster
// than the reference kernel each is.   Usage: cpu_ops FILE-FOLDER [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/thread_pool.h"
#include "ops/case.h"

namespace {

using namespace tenon;
using Clock = std::chrono::steady_clock;

struct Call {
  backends::Step& step;
  std::vector<std::byte*> inputs, outputs;
  std::byte* workspace;
  ThreadPool& thread_pool;
  void run() {
    thread_pool.run([](void* opaque, const Worker& worker) {
      auto& call = *static_cast<Call*>(opaque);
      call.step.run(call.inputs.data(), call.outputs.data(), worker);
    }, this, workspace);
  }
};

/// Median time of a run in microseconds; at least 5 runs, and no longer than half a second.
double time_of(const tests::Case& one, const backends::Kernel& kernel, std::vector<Tensor>& results, int threads) {
  const backends::Problem problem = tests::problem_of(one, results, threads, false);
  if (kernel.refuses(problem)) return -1;
  const auto step = kernel.make(problem);
  std::vector<Tensor> operands = one.operands;
  const Tensor workspace(DType::u8, {static_cast<int64_t>(step->workspace_bytes()) + 1});
  ThreadPool thread_pool(threads, Denormals::flushed, Helpers::all);
  Call call{*step, {}, {}, const_cast<std::byte*>(workspace.data<std::byte>()), thread_pool};
  for (Tensor& operand : operands) call.inputs.push_back(operand ? operand.data<std::byte>() : nullptr);
  for (Tensor& result : results) call.outputs.push_back(result.data<std::byte>());
  call.run();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 5 || (times.size() < 1000 && Clock::now() - begin < std::chrono::milliseconds(300))) {
    const auto start = Clock::now();
    call.run();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (Clock::now() - begin > std::chrono::milliseconds(500)) break;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: cpu_ops FOLDER [THREADS]\n");
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : usable_cores();
  for (const tests::Case& one : tests::read_cases(argv[1])) {
    std::vector<Tensor> results = tests::reference(one);
    const double reference = time_of(one, backends::reference_kernel(), results, threads);
    std::printf("%s\n  ref %.0f us", one.text.c_str(), reference);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (kernel->name == "ref") continue;
      const double time = time_of(one, *kernel, results, threads);
      if (time > 0) std::printf(", %s %.1f us (%.1fx)", kernel->name.c_str(), time, reference / time);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}
