// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace tenon::cli {

/// How fast images or frames go through, told on stderr: on a terminal as a line that is redrawn, else as a line every
/// five seconds.
class Rate {
 public:
  using Clock = std::chrono::steady_clock;
  /// `total` is 0 where it is not known; `noun` is "image" or "frame".
  Rate(int64_t total, std::string noun, bool quiet);
  ~Rate();
  Rate(const Rate&) = delete;
  /// Counts one more.
  void add();
  /// Takes the line on a terminal away.
  void clear();

  /// What would be said now of so many, or "" where it is too early for that.
  static constexpr std::chrono::seconds often{5};
  std::string due(int64_t count, Clock::time_point now);

 private:
  int64_t total_, count_ = 0, told_count_ = 0;
  std::string noun_;
  bool terminal_, drawn_ = false;
  bool quiet_;
  Clock::time_point begin_, told_;
};

}  // namespace tenon::cli
