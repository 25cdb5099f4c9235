// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "base/check.h"
#include "base/printable.h"

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
