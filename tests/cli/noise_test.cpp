// SPDX-License-Identifier: Apache-2.0
#include "cli/noise.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/command.h"

namespace tenon::cli {
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
  put(folder, "proc/stat", "cpu 101000 0 500 99999 0 0 0");
  put(folder, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
  const Noise noise = meter.read();
  EXPECT_GT(noise.other_cores, 1);
  EXPECT_DOUBLE_EQ(noise.mhz_before, 3000);
  EXPECT_DOUBLE_EQ(noise.mhz_after, 2000);
}

TEST(Noise, WhatTheSystemDoesNotTellIsUnknown) {
  const test::Folder folder;
  const Noise noise = NoiseMeter(folder.path()).read();
  EXPECT_LT(noise.other_cores, 0);
  EXPECT_LT(noise.mhz_after, 0);
}

}  // namespace
}  // namespace tenon::cli
