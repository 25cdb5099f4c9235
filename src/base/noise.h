// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

/// What disturbed a measurement, as far as the system tells; below 0: it does not.
struct Noise {
  double other_cores = -1;                 ///< cores that others kept busy or held back, on average
  double mhz_before = -1, mhz_after = -1;  ///< mean clock of the CPUs
};

/// Watches the machine from its construction to `read`. `root` is put before /proc and /sys, for tests.
class NoiseMeter {
 public:
  explicit NoiseMeter(std::string root = "");
  Noise read() const;

 private:
  /// Ticks of the clock that all CPUs have worked or were held back by a hypervisor, and that this process has worked,
  /// since the machine began; below 0: unknown.
  struct Work {
    double all = -1, own = -1, seconds = 0;
  };
  Work work() const;
  double mhz() const;

  std::string root_;
  Work before_;
  double mhz_before_;
};

/// Watches single runs of this process's threads: a thread that the system takes from its core before it is done
/// lengthens the run.
class PreemptionMeter {
 public:
  /// For runs in which so many threads compute from begin to end.
  explicit PreemptionMeter(int threads) : threads_(threads) {}
  void begin();
  /// Whether threads were taken from their cores for a notable part of the run, which took `seconds`.
  bool end(double seconds) const;
  /// The rule: so often was a thread taken from its core, and so long did all of them compute.
  static bool is_disturbed(int64_t preemptions, int threads, double wall_seconds, double cpu_seconds);

 private:
  int threads_;
  int64_t preemptions_ = 0;
  double cpu_seconds_ = 0;
};

/// Standard deviation over mean; 0 for fewer than two times.
double coefficient_of_variation(const std::vector<double>& times);

/// What to say of a measurement that cannot be relied on; none where nothing is wrong.
std::vector<std::string> noise_warnings(double variation, const Noise& noise);

}  // namespace tenon
