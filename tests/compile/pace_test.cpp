// SPDX-License-Identifier: Apache-2.0
#include "compile/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include "compile/int8_pace.h"

namespace tenon::compile {
namespace {

struct Watch {
  double now = 0;
  std::vector<std::string> stages;
  double told = -1;
  Pace pace{[this](const std::string& stage, double, double left) {
              stages.push_back(stage), told = left;
              return true;
            },
            [this] { return now; }};
};

TEST(Pace, OfAStageIsItsOwn) {
  Watch watch;
  watch.pace.expect("tune", 1);
  watch.pace.report("tune", 0);
  EXPECT_LT(watch.told, 0) << "nothing is known";
  watch.now = 10, watch.pace.report("tune", 0.25);
  EXPECT_DOUBLE_EQ(watch.told, 30);
  watch.now = 20;
  EXPECT_DOUBLE_EQ(watch.pace.left(), 20) << "it counts down between reports";
  watch.now = 25, watch.pace.report("tune", 0.5);
  EXPECT_DOUBLE_EQ(watch.told, 25);
}

TEST(Pace, OfAPartCountsTheStageItBeginsWith) {
  Watch watch;
  watch.pace.expect("tune", 1), watch.pace.begin_with("compile", "tune"), watch.pace.expect_seconds("rank", 1, 2);
  watch.pace.report("compile", 0);
  EXPECT_LT(watch.told, 0) << "nothing is known";
  watch.now = 4, watch.pace.report("compile", 0.4, 6);
  EXPECT_DOUBLE_EQ(watch.told, 6 + 2) << "the stage says what is left of the whole part";
  watch.now = 8, watch.pace.report("tune", 0.8, 3);
  EXPECT_DOUBLE_EQ(watch.told, 3 + 2);
  watch.now = 9, watch.pace.report("compile", 0.9, 1);
  EXPECT_DOUBLE_EQ(watch.told, 1 + 2) << "it may come back";
  watch.now = 10, watch.pace.report("rank", 0.5);
  EXPECT_DOUBLE_EQ(watch.told, 0) << "in no time, it has done the half";
  EXPECT_EQ(watch.stages.back(), "rank");
  EXPECT_EQ(watch.stages.front(), "compile") << "stages keep their names";
}

TEST(Pace, OfWhatHasNotBegunIsThatOfWhatIsAlike) {
  Watch watch;
  watch.pace.expect("calibrate", 80);
  watch.pace.expect("layers", 240, 0.5, "calibrate");
  watch.pace.report("calibrate", 0);
  watch.now = 4, watch.pace.report("calibrate", 0.5);
  EXPECT_DOUBLE_EQ(watch.told, 4 + 12);
  watch.now = 8, watch.pace.report("layers", 0);
  EXPECT_DOUBLE_EQ(watch.told, 12);
  watch.now = 14, watch.pace.report("layers", 0.25);
  EXPECT_DOUBLE_EQ(watch.told, 18) << "now it has a pace of its own";
}

TEST(Pace, OfRoundsComesFromRoundsThatAreDone) {
  Watch watch;
  watch.pace.expect("tune", 1), watch.pace.skip("tune"), watch.pace.expect("round", 3);
  for (int round = 0; round < 2; ++round) {
    const Pace::Scope scope(watch.pace, "round", 1);
    watch.now += 5, watch.pace.report("tune", 0.5);  // a part of the round here
    watch.now += 5;
  }
  EXPECT_DOUBLE_EQ(watch.pace.left(), 10);
  {
    const Pace::Scope scope(watch.pace, "round", 1);
    watch.now += 4;
    EXPECT_DOUBLE_EQ(watch.pace.left(), 6);
    watch.now += 40;
    EXPECT_DOUBLE_EQ(watch.pace.left(), 11) << "late, and not over at any moment";
  }
  watch.pace.expect("round", 5);
  {
    const Pace::Scope scope(watch.pace, "round", 0);
    watch.pace.report("tune", 0.1, 90);
    EXPECT_DOUBLE_EQ(watch.told, 90) << "the stage inside knows better";
    watch.now += 10;
    EXPECT_DOUBLE_EQ(watch.pace.left(), 80);
    watch.pace.report("judge", 0);
    EXPECT_LT(watch.told, 50);
  }
  EXPECT_DOUBLE_EQ(watch.pace.left(), 2 * 74. / 3);
  watch.pace.skip("round");
  EXPECT_DOUBLE_EQ(watch.pace.left(), 0);
}

/// As a build in INT8 on a GPU, whose engines are judged fast and calibrated on the host: from a fifth on it says
/// what is left within 30 %, though the search takes seven rounds, as the scales' engines tell.
TEST(Pace, OfAJudgedBuildIsRightAfterAFifth) {
  constexpr double calibrated = 0.6, of_probe = 0.05, round = 9;
  constexpr int images = 80, layers = 60;
  const double whole = 5 + 4 + images * calibrated + 2 * layers * of_probe + 2 * 6 + 7 * round;
  Watch watch;
  Pace& pace = watch.pace;
  const auto check = [&] {
    const double left = pace.left(), real = whole - watch.now;
    if (watch.now > whole / 5 && real > 2) {
      EXPECT_NEAR(left, real, 0.3 * real) << watch.now;
    }
  };
  pace.expect("tune", 1), pace.expect("reference", 1);
  pace.expect("calibrate", images, 4. / images, "reference");
  pace.expect("layers", 2 * layers, 0.1, "calibrate");
  pace.expect("engine", 2, 1.2, "reference"), pace.expect("round", 7, 1.5, "engine");
  pace.report("tune", 0), watch.now += 5, pace.report("tune", 1);
  {
    const Pace::Scope scope(pace, "reference", 1);
    watch.now += 4;
  }
  for (int at = 0; at < images; ++at) pace.report("calibrate", at / 80.), watch.now += calibrated, check();
  for (int at = 0; at < 2 * layers; ++at) pace.report("layers", at / 120.), watch.now += of_probe, check();
  for (int at = 0; at < 2; ++at) {
    const Pace::Scope scope(pace, "engine", 1);
    watch.now += 6;
  }
  check();
  for (int at = 0; at < 7; ++at) {
    const Pace::Scope scope(pace, "round", 1);
    watch.now += round / 2, check(), watch.now += round / 2;
  }
  EXPECT_DOUBLE_EQ(pace.left(), 0);
}

TEST(Pace, OfWhatHasNotBegunMayBeGuessedInSeconds) {
  Watch watch;
  watch.pace.expect_seconds("reference", 2, 5), watch.pace.expect("calibrate", 10, 0.5, "reference");
  EXPECT_DOUBLE_EQ(watch.pace.left(), 10 + 25);
  {
    const Pace::Scope scope(watch.pace, "reference", 1);
    watch.now += 8;
  }
  EXPECT_DOUBLE_EQ(watch.pace.left(), 8 + 40) << "now it has a pace";
  EXPECT_DOUBLE_EQ(watch.pace.spent("reference"), 8);
  EXPECT_DOUBLE_EQ(watch.pace.spent("nothing"), 0);
}

/// How far the time left is from what it was, in parts of that, at each fortieth of a recorded build from the first
/// fifth to the last tenth. A line of a recording is a time and what happened then, as Int8Pace and Pace are told.
struct Replay {
  Watch watch;
  Int8Pace pace{watch.pace};
  std::vector<std::unique_ptr<Pace::Scope>> scopes;
  std::vector<double> errors;

  explicit Replay(const std::string& name) {
    std::ifstream file(TENON_SOURCE_DIR "/tests/compile/pace/" + name);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    const double end = lines.empty() ? 0 : std::stod(lines.back());
    for (const std::string& line : lines) {
      std::istringstream words(line);
      double time = 0;
      std::string what;
      words >> time >> what;
      for (; watch.now < time; watch.now = std::min(time, watch.now + end / 40)) look(end);
      watch.now = time;
      tell(what, words);
    }
  }

  void look(double end) {
    if (watch.now < 0.2 * end || watch.now > 0.9 * end) return;
    errors.push_back(watch.pace.left() / (end - watch.now) - 1);
  }

  void tell(const std::string& what, std::istringstream& words) {
    double first = 0, second = 0;
    std::string part;
    if (what == "begin" || what == "end") {
      std::getline(words >> std::ws, part);
      if (what == "begin") scopes.push_back(std::make_unique<Pace::Scope>(watch.pace, part, 1));
      else scopes.pop_back(), part == Int8Pace::scoring ? pace.scored() : void();
    } else if (what == "report") {
      words >> part >> first >> second;
      std::replace(part.begin(), part.end(), '_', ' ');
      watch.pace.report(part, first, second);
    } else {
      words >> first >> second;
      if (what == "task") {
        watch.pace.expect("tune", 1);
        pace.expect({.judged = true, .chosen = true, .reconstructs = false, .groups = first, .samples = second});
      }
      if (what == "referenced") watch.pace.skip("tune"), pace.referenced(first);
      if (what == "engines") pace.compares(static_cast<size_t>(first));
      if (what == "scaled") pace.scaled();
      if (what == "searches") second == 0 ? pace.searches(first != 0) : pace.searches(static_cast<int>(second), 0);
    }
  }
};

/// Recorded on two cores with nothing else to do.
TEST(Pace, OfRecordedBuildsIsAboutRightAfterAFifth) {
  for (const char* name : {"squeezenet.txt", "mobilenet_v2.txt", "yolov5n.txt"}) {
    Replay replay(name);
    std::vector<double>& errors = replay.errors;
    ASSERT_GT(errors.size(), 20u) << name;
    std::sort(errors.begin(), errors.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    EXPECT_LT(std::fabs(errors[errors.size() / 2]), 0.3) << name << ": in the middle";
    EXPECT_LT(std::fabs(errors.back()), 1.5) << name << ": at worst";
    EXPECT_EQ(replay.watch.pace.left(), 0) << name;
  }
}

TEST(Pace, OfASearchIsThatOfTheRoundsItExpects) {
  Watch watch;
  Int8Pace pace(watch.pace);
  pace.expect({.judged = true, .chosen = false, .reconstructs = false, .groups = 64, .samples = 10});
  for (const char* part : {"calibrate", "choose ranges", "measure layers", Int8Pace::reference}) watch.pace.skip(part);
  const auto round = [&] {
    {
      const Pace::Scope scope(watch.pace, Int8Pace::round, 1);
      watch.now += 10;
    }
    const Pace::Scope scope(watch.pace, Int8Pace::scoring, 1);
    watch.now += 2, pace.scored();
  };
  round();
  pace.searches(1, 0);
  EXPECT_DOUBLE_EQ(watch.pace.left(), 0) << "the first was enough";
  pace.searches(false);
  EXPECT_DOUBLE_EQ(watch.pace.left(), 5 * 10 + 6 * 2) << "as usual, where it will not be";
  pace.searches(1, 2.5);
  EXPECT_DOUBLE_EQ(watch.pace.left(), 2.5 * 12);
  round();
  pace.searches(2, 0.5);
  EXPECT_DOUBLE_EQ(watch.pace.left(), 6);
}

TEST(Pace, WhatTakesLongerThanOthersSaysSoOfThoseBehindIt) {
  Watch watch;
  watch.pace.expect_seconds("engine", 3, 10);
  const Pace::Scope scope(watch.pace, "engine", 1);
  watch.now += 4;
  EXPECT_DOUBLE_EQ(watch.pace.left(), 6 + 20);
  watch.now += 36;
  EXPECT_DOUBLE_EQ(watch.pace.left(), 10 + 80);
}

TEST(Pace, TellsWhereTheUserCancels) {
  Pace pace([](const std::string&, double, double) { return false; }, [] { return 0.; });
  EXPECT_FALSE(pace.report("tune", 0.5));
  EXPECT_TRUE(Pace({}).progress()("tune", 0.5, -1));
}

}  // namespace
}  // namespace tenon::compile
