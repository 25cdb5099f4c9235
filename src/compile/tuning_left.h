// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <limits>
#include <vector>

namespace tenon::compile {

/// How long tuning still takes: each entry's timings at the pace of its own first round, or of the others' that began
/// with it; what has not begun at that of all. Values are told as they are measured; there is no clock in it.
class TuningLeft {
 public:
  /// `rounds` of all, then at most `more` of what was disturbed. `usual_seconds`: of a unit of work in the first round,
  /// before any was timed; 0: not known.
  TuningLeft(int rounds, int more, double usual_seconds = 0)
      : rounds_(rounds), more_(more), usual_seconds_(usual_seconds) {}

  /// Entries of so much work each, in any unit, are timed next; what was expected of them so far is over.
  void begin(std::vector<double> work);
  /// So much work will be entered behind these.
  void expect_later(double work) { later_ = work; }
  /// An entry's round took so long. `again`: work of each of its later rounds; `disturbed`: of what will be timed once
  /// more behind all rounds, as it stands.
  void timed(size_t entry, int round, double seconds, double again, double disturbed);
  /// What was disturbed is timed again for at most so many seconds, and such a part of the time of all else.
  void allow(double seconds, double share) { allowed_ = seconds, allowed_share_ = share; }
  /// Seconds from the entry `next` of a round on; below 0: not known.
  double left(int round, size_t next) const;

 private:
  struct Entry {
    double work, seconds = -1, again = 0, disturbed = 0;  // seconds of the first round
  };
  /// Seconds of a unit of work.
  double each(const Entry& entry) const;
  double usual() const;

  int rounds_, more_;
  double usual_seconds_;
  double later_ = 0;
  double allowed_ = std::numeric_limits<double>::infinity(), allowed_share_ = 0;
  std::vector<Entry> entries_;
  double seconds_ = 0, work_ = 0;                  // of first rounds, of these entries
  double all_seconds_ = 0, all_work_ = 0;          // the same of all entries so far
  int timed_ = 0;                                  // of them
  double again_seconds_ = 0, again_expected_ = 0;  // of later rounds, and by the pace of the first
  double all_again_ = 0, all_disturbed_ = 0;       // of all entries so far
};

}  // namespace tenon::compile
