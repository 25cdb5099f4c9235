// SPDX-License-Identifier: Apache-2.0
#include <tenon/logger.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "base/printable.h"

namespace tenon {

const char* name(Severity severity) {
  switch (severity) {
    case Severity::internal_error: return "internal_error";
    case Severity::error: return "error";
    case Severity::warning: return "warning";
    case Severity::info: return "info";
    case Severity::verbose: return "verbose";
  }
  return "internal_error";
}

struct Logger::State {
  Sink sink;
  Severity least;
  std::mutex one_at_a_time;
};

Logger::Logger(Sink sink, Severity least) {
  if (sink) state_.reset(new State{std::move(sink), least, {}});
}

Logger Logger::to_stderr(Severity least) {
  return Logger(
      [](Severity severity, std::string_view message) {
        const std::string line = name(severity) + (": " + printable(std::string(message))) + "\n";
        std::fwrite(line.data(), 1, line.size(), stderr);
      },
      least);
}

bool Logger::takes(Severity severity) const { return state_ && severity <= state_->least; }

void Logger::log(Severity severity, std::string_view message) const {
  if (!takes(severity)) return;
  const std::lock_guard lock(state_->one_at_a_time);
  try {
    state_->sink(severity, message);
  } catch (...) {
  }
}

}  // namespace tenon
