// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <utility>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/executable.h"
#include "ops/round_weights.h"

namespace tenon::cuda {

void round_weights(std::span<Problem> problems, ThreadPool& thread_pool) {
  struct Work {
    DType type;
    Tensor from, to;
  };
  struct Shared {
    std::vector<Work> list;
    std::atomic<size_t> next{0};
  } shared;
  for (Problem& problem : problems)
    for (size_t input = 1; problem.node && input < problem.inputs.size(); ++input) {
      const DType type = rounds_weights_to(problem, input);
      if (type == DType::undefined) continue;
      Tensor& weights = problem.inputs[input].constant;
      const Tensor from = std::exchange(weights, Tensor(DType::f32, weights.dims()));
      shared.list.push_back({type, from, weights});
    }
  thread_pool.run(
      [](void* context, const Worker&) {
        auto& work = *static_cast<Shared*>(context);
        for (size_t at = work.next++; at < work.list.size(); at = work.next++)
          ops::round_weights(work.list[at].from, work.list[at].type, work.list[at].to);
      },
      &shared);
}

}  // namespace tenon::cuda
