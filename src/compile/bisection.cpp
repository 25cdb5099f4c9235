// SPDX-License-Identifier: Apache-2.0
#include "compile/bisection.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tenon::compile {
namespace {

constexpr double least_share = 0.05, most_share = 0.7;  // of the sensitivity that was too much, to be tried next
constexpr double far = 4;                               // apart
constexpr int most_steps = 60;                          // many find nothing new

}  // namespace

Bisection::Bisection(std::vector<double> sensitivities)
    : sensitivities_(std::move(sensitivities)), within_(sensitivities_.size()), beyond_(sensitivities_.size(), 1) {
  for (const double one : sensitivities_) high_ += one;
}

/// Those that come first and still fit.
std::vector<char> Bisection::staying(double allowed) const {
  std::vector<char> stays(sensitivities_.size());
  double left = allowed;
  for (size_t at = 0; at < stays.size(); ++at)
    if (sensitivities_[at] <= left) stays[at] = 1, left -= sensitivities_[at];
  return stays;
}

std::optional<std::vector<char>> Bisection::next(double limit_by_drop) {
  for (; steps_ < most_steps && within_ != beyond_; ++steps_) {
    allowed_ = (low_ + high_) / 2;
    // Boxes and classes change by how far values move, which sensitivity is the square of.
    if (low_ == 0) allowed_ = high_ * std::clamp(std::pow(limit_by_drop, 2), least_share, most_share);
    else if (high_ > far * low_) allowed_ = std::sqrt(low_ * high_);
    stays_ = staying(allowed_);
    if (stays_ != within_ && stays_ != beyond_) return stays_;
    (stays_ == within_ ? low_ : high_) = allowed_;
  }
  return std::nullopt;
}

void Bisection::tell(bool enough) {
  (enough ? low_ : high_) = allowed_;
  (enough ? within_ : beyond_) = stays_;
  ++steps_;
}

double Bisection::expected(int most, double limit_by_drop) const {
  Bisection one = *this;
  if (most <= 0 || !one.next(limit_by_drop)) return 0;
  Bisection other = one;
  one.tell(true), other.tell(false);
  constexpr double usual = 0.7;  // the limit by the drop, of what was not good enough
  return 1 + (one.expected(most - 1, usual) + other.expected(most - 1, usual)) / 2;
}

}  // namespace tenon::compile
