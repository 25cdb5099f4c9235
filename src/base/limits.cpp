// SPDX-License-Identifier: Apache-2.0
#include <tenon/limits.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/container.h"
#include "base/memory.h"
#include "tenon/error.h"

namespace tenon {
namespace {

constexpr double usable_share = 0.8;
constexpr int64_t most = INT64_MAX / 2;

std::atomic<int64_t> held{0}, memory_cap{0}, round_cap{Limits{}.loop_rounds}, workspace_cap{0};

/// Memory the machine, or the container where it allows less, has to spare.
int64_t free_bytes() {
  int64_t bytes = most;
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (int64_t kib; file >> key >> kib && std::getline(file, unit);)
    if (key == "MemAvailable:") bytes = kib * 1024;
  const ContainerLimits container = container_limits();
  return container.memory_bytes > 0 ? std::min(bytes, container.free_bytes) : bytes;
}

int64_t default_cap() {
  static const int64_t bytes = static_cast<int64_t>(static_cast<double>(free_bytes()) * usable_share);
  return bytes;
}

void check(const Limits& limits) {
  if (limits.memory_bytes < 0 || limits.workspace_bytes < 0 || limits.loop_rounds < 1)
    throw Error(Code::usage,
                limits.loop_rounds < 1 ? "at least one iteration must be allowed" : "a limit of memory is negative");
}

/// The lesser of two limits, of which 0 is none.
int64_t narrower(int64_t a, int64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

const std::shared_ptr<Budget> no_budget;
thread_local const std::shared_ptr<Budget>* current = &no_budget;

}  // namespace

Limits limits() {
  const int64_t cap = memory_cap.load();
  return {cap > 0 ? cap : default_cap(), round_cap.load(), workspace_cap.load()};
}

std::shared_ptr<Budget> Budget::of(const std::optional<Limits>& limits) {
  if (!limits) return nullptr;
  check(*limits);
  return std::make_shared<Budget>(*limits);
}

bool Budget::take(int64_t bytes, Where where) {
  const int64_t before = held_[static_cast<int>(where)].fetch_add(bytes);
  if (limits_.memory_bytes == 0 || bytes <= limits_.memory_bytes - before) return true;
  give_back(bytes, where);
  return false;
}

const std::shared_ptr<Budget>& current_budget() { return *current; }

BudgetScope::BudgetScope(const std::shared_ptr<Budget>& budget) : outer_(std::exchange(current, &budget)) {}
BudgetScope::~BudgetScope() { current = outer_; }

Limits limits_in_force() {
  Limits all = limits();
  if (const Budget* budget = current->get()) {
    const Limits& own = budget->limits();
    all = {narrower(all.memory_bytes, own.memory_bytes), std::min(all.loop_rounds, own.loop_rounds),
           narrower(all.workspace_bytes, own.workspace_bytes)};
  }
  return all;
}

void set_limits(const Limits& limits) {
  check(limits);
  memory_cap = limits.memory_bytes;
  round_cap = limits.loop_rounds;
  workspace_cap = limits.workspace_bytes;
}

int64_t given_process_limit() { return memory_cap.load(); }

int64_t given_memory_limit() {
  const Budget* budget = current->get();
  return narrower(given_process_limit(), budget ? budget->limits().memory_bytes : 0);
}

bool take_memory(int64_t bytes) {
  Budget* budget = current->get();
  if (budget && !budget->take(bytes)) return false;
  const int64_t cap = limits().memory_bytes;
  int64_t now = held.load();
  do {
    if (bytes > cap - now) {
      if (budget) budget->give_back(bytes);
      return false;
    }
  } while (!held.compare_exchange_weak(now, now + bytes));
  return true;
}

void give_memory_back(int64_t bytes, Budget* budget) noexcept {
  held -= bytes;
  if (budget) budget->give_back(bytes);
}

std::string memory_text(int64_t bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return counted(bytes, "byte");
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  const int64_t tenths = static_cast<int64_t>(value * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " " + units[unit];
}

}  // namespace tenon
