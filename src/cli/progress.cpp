// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>

#include "cli/print.h"
#include "cli/report.h"
#include "cli/signals.h"

namespace tenon::cli {

namespace {
/// The line on a terminal; taken away when the work ends.
struct Line {
  bool terminal = isatty(STDERR_FILENO) == 1;
  std::string stage;
  bool drawn = false;
  ~Line() { clear(); }
  void clear() {
    if (drawn) write_err("\r\x1b[K");
    drawn = false;
  }
};
}  // namespace

Progress progress_to_stderr(bool quiet) {
  auto line = std::make_shared<Line>();
  return [line, quiet](const std::string& stage, double done, double seconds_left) {
    if (interrupted() != 0) return false;
    if (quiet) return true;
    const std::string left = seconds_left < 0 ? "" : fmt::format(", {:.0f} s left", seconds_left);
    if (line->terminal) {
      print_err("\r\x1b[K{:3.0f}%  {}{}", done * 100, printable(stage).substr(0, 80), left);
      line->drawn = true;
      if (done >= 1) line->clear();
    } else if (stage != line->stage) {
      print_err("{}{}\n", printable(stage), left);
    }
    line->stage = stage;
    return true;
  };
}

Progress build_progress(bool quiet, std::shared_ptr<const BuildKind> kind) {
  using Clock = std::chrono::steady_clock;
  auto line = std::make_shared<Line>();
  auto stages = std::make_shared<std::optional<Stages>>();
  return [line, stages, kind, quiet, begin = Clock::now()](const std::string& stage, double, double seconds_left) {
    if (interrupted() != 0) return false;
    if (quiet) return true;
    if (!*stages) stages->emplace(*kind);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const Stages::Place place = (*stages)->at(stage, seconds, seconds_left);
    const std::string time = place.left < 0 || place.done >= 1 ? "" : fmt::format(", {:.0f} s left", place.left);
    const std::string step = place.of > 1 ? fmt::format("step {} of {}: ", place.step, place.of) : "";
    const std::string told = printable(stage).substr(0, 80);
    if (line->terminal) {
      constexpr int width = 20;
      const auto full = static_cast<size_t>(place.done * width);
      print_err("\r\x1b[K[{}{}] {:3.0f}%  {}{}{}", std::string(full, '#'), std::string(width - full, '.'),
                place.done * 100, step, told, time);
      line->drawn = true;
      if (place.done >= 1) line->clear();
    } else if (stage != line->stage) {
      print_err("{}{}{}\n", step, told, time);
    }
    line->stage = stage;
    return true;
  };
}

}  // namespace tenon::cli
