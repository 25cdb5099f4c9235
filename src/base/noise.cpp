// SPDX-License-Identifier: Apache-2.0
#include "base/noise.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

constexpr double most_variation = 0.05, most_other_cores = 0.25, most_clock_change = 0.05;
constexpr int most_cpus = 1024;
constexpr double notable = 0.03;  // of a run, that a thread stood still

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// Of all threads of this process.
double cpu_seconds() {
  timespec time{};
  return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0
             ? static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9
             : 0;
}

int64_t preemptions() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace

void PreemptionMeter::begin() { preemptions_ = preemptions(), cpu_seconds_ = cpu_seconds(); }

bool PreemptionMeter::end(double seconds) const {
  return is_disturbed(preemptions() - preemptions_, threads_, seconds, cpu_seconds() - cpu_seconds_);
}

bool PreemptionMeter::is_disturbed(int64_t preemptions, int threads, double wall_seconds, double cpu_seconds) {
  // Who waits for others computes meanwhile: what is missing is what one stood still.
  return preemptions > 0 && threads * wall_seconds - cpu_seconds > notable * wall_seconds;
}

NoiseMeter::NoiseMeter(std::string root) : root_(std::move(root)), before_(work()), mhz_before_(mhz()) {}

NoiseMeter::Work NoiseMeter::work() const {
  Work work;
  std::ifstream file(root_ + "/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (file >> name >> user >> nice >> system && name == "cpu") {
    work.all = user + nice + system;
    if (file >> idle >> iowait >> irq >> softirq >> steal) work.all += irq + softirq + steal;
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    work.own = (seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime)) * static_cast<double>(sysconf(_SC_CLK_TCK));
  work.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return work;
}

double NoiseMeter::mhz() const {
  double sum = 0;
  int count = 0;
  for (int cpu = 0; cpu < most_cpus; ++cpu) {
    std::ifstream file(fmt::format("{}/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", root_, cpu));
    double khz = 0;
    if (!(file >> khz)) break;
    sum += khz / 1000;
    ++count;
  }
  return count > 0 ? sum / count : -1;
}

Noise NoiseMeter::read() const {
  Noise noise;
  const Work after = work();
  const double seconds = after.seconds - before_.seconds;
  constexpr double least_seconds = 0.2;  // ticks are of 10 ms
  if (before_.all >= 0 && after.all >= 0 && seconds >= least_seconds) {
    const double others = (after.all - before_.all) - (after.own - before_.own);
    noise.other_cores = std::max(0.0, others / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds);
  }
  noise.mhz_before = mhz_before_;
  noise.mhz_after = mhz();
  return noise;
}

double coefficient_of_variation(const std::vector<double>& times) {
  if (times.size() < 2) return 0;
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  double squares = 0;
  for (const double time : times) squares += (time - mean) * (time - mean);
  return mean > 0 ? std::sqrt(squares / static_cast<double>(times.size() - 1)) / mean : 0;
}

std::vector<std::string> noise_warnings(double variation, const Noise& noise) {
  std::vector<std::string> warnings;
  if (variation > most_variation)
    warnings.push_back(
        fmt::format("the times vary by {:.1f} % (coefficient of variation): compare medians, or measure on an idle "
                    "machine",
                    100 * variation));
  if (noise.other_cores > most_other_cores)
    warnings.push_back(fmt::format("other processes kept {:.1f} cores busy meanwhile", noise.other_cores));
  if (noise.mhz_before > 0 && noise.mhz_after > 0 &&
      std::abs(noise.mhz_after / noise.mhz_before - 1) > most_clock_change)
    warnings.push_back(fmt::format("the clock of the CPU changed from {:.0f} to {:.0f} MHz meanwhile", noise.mhz_before,
                                   noise.mhz_after));
  return warnings;
}

}  // namespace tenon
