// SPDX-License-Identifier: Apache-2.0
#include "cli/rate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/print.h"
#include "cli/report.h"

namespace tenon::cli {
namespace {

constexpr std::chrono::milliseconds redrawn{500};

double seconds(Rate::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string time_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  return seconds < 6000 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Rate::Rate(int64_t total, std::string noun, bool quiet)
    : total_(total),
      noun_(std::move(noun)),
      terminal_(isatty(STDERR_FILENO) == 1),
      quiet_(quiet),
      begin_(Clock::now()),
      told_(begin_) {}

Rate::~Rate() { clear(); }

void Rate::clear() {
  if (std::exchange(drawn_, false)) write_err("\r\x1b[K");
}

std::string Rate::due(int64_t count, Clock::time_point now) {
  if (now - told_ < (terminal_ ? Clock::duration(redrawn) : Clock::duration(often))) return "";
  // The rate is that since the last line: what came before may have been another kind of work.
  const double recent = static_cast<double>(count - told_count_) / seconds(now - told_);
  const double mean = static_cast<double>(count) / seconds(now - begin_);
  told_ = now, told_count_ = count;
  std::string text = total_ > 0 ? fmt::format("{} of {}", count, counted(total_, noun_)) : counted(count, noun_);
  text += fmt::format(", {:.1f} {}s a second", recent, noun_);
  if (total_ > count && mean > 0) text += ", " + time_text(static_cast<double>(total_ - count) / mean) + " left";
  return text;
}

void Rate::add() {
  ++count_;
  if (quiet_) return;
  const std::string text = due(count_, Clock::now());
  if (text.empty()) return;
  if (!terminal_) {
    write_err(text + "\n");
    return;
  }
  write_err("\r\x1b[K" + text);
  drawn_ = true;
}

}  // namespace tenon::cli
