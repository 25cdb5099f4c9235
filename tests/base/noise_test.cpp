// SPDX-License-Identifier: Apache-2.0
#include "base/noise.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/command.h"

namespace tenon {
namespace {

void put(const test::Folder& folder, const std::string& path, const std::string& text) {
  const std::filesystem::path file = folder / path;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

TEST(Noise, VariationIsStandardDeviationOverMean) {
  EXPECT_DOUBLE_EQ(coefficient_of_variation({}), 0);
  EXPECT_DOUBLE_EQ(coefficient_of_variation({3}), 0);
  EXPECT_DOUBLE_EQ(coefficient_of_variation({9, 11}), std::sqrt(2.0) / 10);
}

TEST(Noise, AQuietMeasurementIsNotWarnedOf) {
  EXPECT_TRUE(noise_warnings(0.05, {}).empty());
  EXPECT_TRUE(noise_warnings(0.01, {.other_cores = 0.1, .mhz_before = 3000, .mhz_after = 3010}).empty());
}

TEST(Noise, EachDisturbanceIsNamedWithItsFigure) {
  const auto warnings = noise_warnings(0.123, {.other_cores = 1.5, .mhz_before = 3000, .mhz_after = 2000});
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("12.3 %"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("1.5 cores"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[2].find("3000 to 2000 MHz"), std::string::npos) << warnings[2];
}

TEST(Noise, WorkOfOthersAndTheClockComeFromTheSystem) {
  const test::Folder folder;
  put(folder, "proc/stat", "cpu 1000 0 500 99999 0 0 0");
  put(folder, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000");
  const NoiseMeter meter(folder.path());
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  put(folder, "proc/stat", "cpu 101000 0 500 99999 0 0 0 0");
  put(folder, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
  const Noise noise = meter.read();
  EXPECT_GT(noise.other_cores, 1);
  EXPECT_DOUBLE_EQ(noise.mhz_before, 3000);
  EXPECT_DOUBLE_EQ(noise.mhz_after, 2000);
}

/// What a hypervisor gives to other machines.
TEST(Noise, StolenTimeCounts) {
  const test::Folder folder;
  put(folder, "proc/stat", "cpu 1000 0 500 99999 0 0 0 0");
  const NoiseMeter meter(folder.path());
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  put(folder, "proc/stat", "cpu 1000 0 500 99999 0 0 0 100000");
  EXPECT_GT(meter.read().other_cores, 1);
}

TEST(Preemption, IsWhatAThreadStoodStill) {
  const auto is_disturbed = PreemptionMeter::is_disturbed;
  EXPECT_FALSE(is_disturbed(0, 2, 0.010, 0.012)) << "threads that sleep by themselves";
  EXPECT_FALSE(is_disturbed(1, 2, 0.010, 0.0199)) << "a moment of 1 %";
  EXPECT_TRUE(is_disturbed(1, 2, 0.010, 0.015)) << "half of the run of one thread";
  EXPECT_TRUE(is_disturbed(3, 1, 0.010, 0.002));
}

TEST(Preemption, OfABusyCoreIsSeen) {
  cpu_set_t one, all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const pid_t other = fork();
  if (other == 0)
    for (;;) {
    }
  PreemptionMeter meter(1);
  meter.begin();
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  while (seconds < 0.3)
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool seen = meter.end(seconds);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_TRUE(seen);
}

TEST(Noise, WhatTheSystemDoesNotTellIsUnknown) {
  const test::Folder folder;
  const Noise noise = NoiseMeter(folder.path()).read();
  EXPECT_LT(noise.other_cores, 0);
  EXPECT_LT(noise.mhz_after, 0);
}

}  // namespace
}  // namespace tenon
