// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

namespace tenon::compile {

/// Finds how much sensitivity may be allowed: groups of layers stay as long as all of theirs is no more than that. Told
/// of each choice whether it is good enough, it halves what lies between the last that was and the last that was not.
class Bisection {
 public:
  /// Sensitivities in the order in which groups are taken, of which all together is too much.
  explicit Bisection(std::vector<double> sensitivities);

  /// The groups that stay next; nothing where no other choice is left. `limit_by_drop`: of the last choice's, which
  /// counts as long as none was good enough.
  std::optional<std::vector<char>> next(double limit_by_drop);
  /// Whether the last of `next` was good enough.
  void tell(bool enough);
  /// How many choices are still to come, at most so many, where each is as likely good enough as not.
  double expected(int most, double limit_by_drop) const;

 private:
  std::vector<char> staying(double allowed) const;

  std::vector<double> sensitivities_;
  double low_ = 0, high_ = 0, allowed_ = 0;  // with `low` allowed it is good enough, with `high` it is not
  std::vector<char> within_, beyond_, stays_;
  int steps_ = 0;
};

}  // namespace tenon::compile
