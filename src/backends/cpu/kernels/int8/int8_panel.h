// SPDX-License-Identifier: Apache-2.0
// Weights of a block of channels, as many of them as stay in L1.
#pragma once

#include "backends/cpu/kernels/int8/int8_finish.h"
#include "backends/cpu/kernels/int8/int8_micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// So far ahead weights are fetched beside the first tiles: what memory takes to answer.
constexpr int64_t kFetchedAhead = 24 << 10;

// A panel of runs of a job's weights.
struct Panel {
  Runs runs;
  const std::byte* weights;
  int64_t bytes;
  Panel(const Int8Plan& plan, const Job& job, int64_t run)
      : runs{plan.runs + run, smaller(plan.run_block, plan.run_count - run), plan.run_units},
        weights(job.weights + run * plan.run_units * kBlock * 4),
        bytes(runs.count * plan.run_units * kBlock * 4) {}
  const std::byte* fetched(int64_t tile) const {
    return tile < 4 ? weights + kFetchedAhead + bytes * tile / 4 : weights;
  }
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
