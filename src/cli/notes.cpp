// SPDX-License-Identifier: Apache-2.0
#include "cli/notes.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/knobs.h"
#include "base/printable.h"
#include "cli/print.h"

namespace tenon::cli {
namespace {

constexpr int red = 31, yellow = 33, cyan = 36;

/// A line whose first word, up to its colon, has a colour.
void print(const std::string& line, int colour) {
  static const bool coloured = isatty(STDERR_FILENO) == 1 && !knobs::value(knobs::no_color);
  const size_t colon = line.find(':');
  if (!coloured || colon == std::string::npos) return write_err(line + "\n");
  print_err("\x1b[1;{}m{}\x1b[0m{}\n", colour, line.substr(0, colon + 1), line.substr(colon + 1));
}

}  // namespace

void tell(const Error& error) { print(error.text(), red); }
void warn(const std::string& text) { print("warning: " + printable(text), yellow); }
void note(const std::string& text, const std::string& word) { print(word + ": " + printable(text), cyan); }

}  // namespace tenon::cli
