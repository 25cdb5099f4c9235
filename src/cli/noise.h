// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cli {

/// What disturbed a measurement, as far as the system tells; below 0: it does not.
struct Noise {
  double other_cores = -1;                 ///< cores that other processes kept busy, on average
  double mhz_before = -1, mhz_after = -1;  ///< mean clock of the CPUs
};

/// Watches the machine from its construction to `read`. `root` is put before /proc and /sys, for tests.
class NoiseMeter {
 public:
  explicit NoiseMeter(std::string root = "");
  Noise read() const;

 private:
  /// Ticks of the clock that all CPUs, and this process, have worked since the machine began; below 0: unknown.
  struct Work {
    double all = -1, own = -1, seconds = 0;
  };
  Work work() const;
  double mhz() const;

  std::string root_;
  Work before_;
  double mhz_before_;
};

/// Standard deviation over mean; 0 for fewer than two times.
double coefficient_of_variation(const std::vector<double>& times);

/// What to say of a measurement that cannot be relied on; none where nothing is wrong.
std::vector<std::string> noise_warnings(double variation, const Noise& noise);

}  // namespace tenon::cli
