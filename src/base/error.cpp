// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "base/check.h"

namespace tenon {

const char* name(Code code) {
  switch (code) {
    case Code::internal: return "internal";
    case Code::usage: return "usage";
    case Code::invalid_model: return "invalid_model";
    case Code::unsupported: return "unsupported";
    case Code::bad_engine: return "bad_engine";
    case Code::gate_failed: return "gate_failed";
    case Code::resource: return "resource";
    case Code::io: return "io";
  }
  return "internal";
}

namespace {
/// Names come from files: what would move the cursor or end the line is spelled out.
std::string printable(const std::string& text) {
  static const char digits[] = "0123456789abcdef";
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) clean += c;
    else clean += std::string("\\x") + digits[byte / 16] + digits[byte % 16];
  }
  return clean;
}
}  // namespace

std::string Error::text() const {
  std::string text = "error: " + printable(what());
  if (!where().empty()) text += "\n  where:   " + printable(where());
  if (!why().empty()) text += "\n  why:     " + printable(why());
  if (!hint().empty()) text += "\n  you can: " + printable(hint());
  return text;
}

void broken_invariant(const char* condition, const char* file, int line, std::string_view message) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + condition + ": " +
                         std::string(message));
}

}  // namespace tenon
