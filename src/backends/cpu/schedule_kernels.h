// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/schedule.h"

namespace tenon::cpu {

/// The kernels of a schedule and of the blocks in it, weights packed: immutable, shared by sessions.
class ScheduleKernels {
 public:
  /// The schedule must outlive it. `own` is the same where its steps may be told where to share packed weights; `like`
  /// are the kernels of the same graph for other sizes.
  explicit ScheduleKernels(const backends::Schedule& schedule, backends::Schedule* own = nullptr,
                           const ScheduleKernels* like = nullptr);
  const backends::Schedule& schedule() const { return schedule_; }
  /// What runs a step: the schedule's tactic where that takes the sizes.
  const std::string& tactic(size_t at) const;
  /// A step of one session, where it cannot be shared. It must not outlive this.
  std::shared_ptr<const backends::Step> step(size_t at) const;
  /// Of packed weights; those that several steps share count once.
  size_t packed_bytes() const;
  /// Of the constants that steps read as they are.
  size_t plain_bytes() const;

 private:
  void make_steps(const ScheduleKernels* like);
  /// Of the same node by the same tactic, probably at that place; null: there is none. `same`: this one's schedule has
  /// the same steps.
  const backends::Step* step_of(const backends::ScheduledStep& wanted, size_t at, bool same) const;

  const backends::Schedule& schedule_;
  std::vector<std::shared_ptr<const backends::Step>> steps_;           // null where a step has blocks
  std::vector<std::vector<std::unique_ptr<ScheduleKernels>>> blocks_;  // per step
  std::vector<const backends::Kernel*> kernels_;                       // that made them
  std::map<size_t, std::string> others_;                               // tactics that run in the place of the steps'
};

}  // namespace tenon::cpu
