// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "backends/kernel.h"
#include "backends/schedule.h"

namespace tenon::cpu {

/// The kernels of a schedule and of the blocks in it, weights packed: immutable, shared by sessions.
class ScheduleKernels {
 public:
  /// The schedule must outlive it. `own` is the same where its steps may be told the tactics that run them; `like` are
  /// the kernels of the same graph for other sizes.
  explicit ScheduleKernels(const backends::Schedule& schedule, backends::Schedule* own = nullptr,
                           const ScheduleKernels* like = nullptr);
  const backends::Schedule& schedule() const { return schedule_; }
  /// A step of one session, where it cannot be shared. It must not outlive this.
  std::shared_ptr<const backends::Step> step(size_t at) const;
  /// Of packed weights; those that several steps share count once.
  size_t packed_bytes() const;
  /// Of the constants that steps read as they are.
  size_t plain_bytes() const;

 private:
  /// Of the same node by the same tactic, probably at that place; null: there is none.
  const backends::Step* step_of(const backends::ScheduledStep& wanted, size_t at) const;

  const backends::Schedule& schedule_;
  std::vector<std::shared_ptr<const backends::Step>> steps_;           // null where a step has blocks
  std::vector<std::vector<std::unique_ptr<ScheduleKernels>>> blocks_;  // per step
};

}  // namespace tenon::cpu
