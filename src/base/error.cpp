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

std::string Error::text() const {
  std::string text = std::string("error: ") + what();
  if (!where().empty()) text += "\n  where:   " + where();
  if (!why().empty()) text += "\n  why:     " + why();
  if (!hint().empty()) text += "\n  you can: " + hint();
  return text;
}

void broken_invariant(const char* condition, const char* file, int line, std::string_view message) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + condition + ": " + std::string(message));
}

}  // namespace tenon
