// SPDX-License-Identifier: Apache-2.0
#include "compile/tuning_left.h"

#include <algorithm>
#include <utility>

namespace tenon::compile {
namespace {

// Of a later round's work by the first one's, and of what has later ones; before there are any.
constexpr double usual_again_cost = 0.5, usual_again = 0.4;
constexpr double still_disturbed = 0.7;  // of what was, in the next round

}  // namespace

void TuningLeft::begin(std::vector<double> work) {
  entries_.clear();
  later_ = seconds_ = work_ = 0;
  for (const double one : work) entries_.push_back({one});
}

double TuningLeft::each(const Entry& entry) const {
  if (entry.seconds >= 0) return entry.seconds / std::max(entry.work, 1e-9);
  return work_ > 0 ? seconds_ / work_ : usual();
}

double TuningLeft::usual() const { return timed_ > 0 ? all_seconds_ / all_work_ : usual_seconds_; }

void TuningLeft::timed(size_t at, int round, double seconds, double again, double disturbed) {
  Entry& entry = entries_[at];
  if (round == 0) {
    entry.seconds = seconds;
    seconds_ += seconds, work_ += entry.work;
    all_work_ += entry.work, all_again_ += again;
    all_seconds_ += seconds, ++timed_;
  } else {
    again_seconds_ += seconds;
    again_expected_ += std::max(entry.again, entry.disturbed) * each(entry);
  }
  all_disturbed_ += disturbed - entry.disturbed;
  entry.again = again, entry.disturbed = disturbed;
}

double TuningLeft::left(int round, size_t next) const {
  if (timed_ == 0 && usual_seconds_ == 0) return -1;
  const double cost = again_expected_ > 0 ? again_seconds_ / again_expected_ : usual_again_cost;
  constexpr int few = 3;  // say little of how many come again
  const double again_share = timed_ < few ? usual_again : all_again_ / all_work_;
  const double disturbed_share = timed_ == 0 ? 0 : all_disturbed_ / all_work_;
  double disturbed_again = 0;  // rounds, of what is disturbed now
  for (int more = std::max(0, round - rounds_), at = more; at < more_; ++at)
    disturbed_again = at == more ? 1 : 1 + still_disturbed * disturbed_again;
  const double rounds = 1 + cost * (rounds_ - 1) * again_share, repeats = cost * disturbed_again * disturbed_share;
  double left = later_ * usual() * rounds, again = later_ * usual() * repeats;
  for (size_t at = 0; at < entries_.size(); ++at) {
    const Entry& entry = entries_[at];
    if (round == 0 && at >= next && entry.seconds < 0) {
      left += entry.work * each(entry) * rounds, again += entry.work * each(entry) * repeats;
      continue;
    }
    const double one = each(entry) * cost;
    if (round < rounds_) {
      const int more = rounds_ - 1 - round + (round > 0 && at >= next ? 1 : 0);
      left += one * more * entry.again, again += one * disturbed_again * entry.disturbed;
    } else {
      again += one * entry.disturbed * (disturbed_again - (at < next ? 1 : 0));
    }
  }
  return left + std::min(again, std::max(0.0, allowed_) + allowed_share_ * left);
}

}  // namespace tenon::compile
