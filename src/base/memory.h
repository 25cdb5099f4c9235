// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/limits.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tenon {

/// Limits of one engine, and what it holds of them.
class Budget {
 public:
  enum class Where { host, gpu };
  /// Throws Error(usage) as set_limits does. nullptr where `limits` is absent.
  static std::shared_ptr<Budget> of(const std::optional<Limits>& limits);
  explicit Budget(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }
  /// Limits::memory_bytes holds for either.
  bool take(int64_t bytes, Where where = Where::host);
  void give_back(int64_t bytes, Where where = Where::host) noexcept { held_[static_cast<int>(where)] -= bytes; }

 private:
  Limits limits_;
  std::atomic<int64_t> held_[2] = {0, 0};
};

/// The budget that counts for this thread beside the process's; nullptr: none. A thread pool's threads work under their
/// caller's.
const std::shared_ptr<Budget>& current_budget();

/// A budget counts for this thread while it lives; it must outlive this.
class BudgetScope {
 public:
  explicit BudgetScope(const std::shared_ptr<Budget>& budget);
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;

 private:
  const std::shared_ptr<Budget>* outer_;
};

/// The limits that hold for this thread: of the process, and of the current budget where those are narrower.
Limits limits_in_force();
/// Counts `bytes` of tensors or arenas against Limits::memory_bytes of the process and of the current budget; false
/// when they do not fit. Thread-safe.
bool take_memory(int64_t bytes);
/// `budget` is the one that was current when they were taken.
void give_memory_back(int64_t bytes, Budget* budget = nullptr) noexcept;
/// The narrowest Limits::memory_bytes in force that was given, and the process's alone; 0 where none was.
int64_t given_memory_limit();
int64_t given_process_limit();
/// "1.5 GiB"
std::string memory_text(int64_t bytes);

}  // namespace tenon
