// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace tenon {

/// How much a message matters, the gravest first.
enum class Severity : uint8_t {
  internal_error,  ///< a fault of Tenon itself or of the device; what runs on it cannot go on
  error,           ///< what was asked for failed; the same text is thrown
  warning,         ///< it goes on, though something is odd
  info,            ///< what was built, loaded or planned
  verbose,         ///< each step of that
};

/// "internal_error", "error", "warning", "info", "verbose".
TENON_API const char* name(Severity severity);

/// Where Tenon tells what it does. Cheap to copy: copies share one sink. An engine keeps the logger that it was built
/// or loaded with, and its sessions use it.
class TENON_API Logger {
 public:
  /// Takes one message, without a line end. Called by any thread, by one at a time; what it throws is dropped.
  using Sink = std::function<void(Severity severity, std::string_view message)>;
  /// Silent.
  Logger() = default;
  /// Passes on what matters as much as `least`, or more.
  explicit Logger(Sink sink, Severity least = Severity::info);
  /// Lines "warning: …" on the standard error.
  static Logger to_stderr(Severity least = Severity::warning);
  /// Whether messages of that severity go anywhere: for messages that take work to make.
  bool takes(Severity severity) const;
  void log(Severity severity, std::string_view message) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tenon
