// SPDX-License-Identifier: Apache-2.0
#include "backends/reason.h"

#include <string_view>

namespace tenon::backends {
namespace {

struct Entry {
  const char *name, *text;
};

constexpr Entry entries[] = {
#define TENON_REASON(code, text) {#code, text},
    TENON_REASONS(TENON_REASON)
#undef TENON_REASON
};

const Entry& entry_of(ReasonCode code) { return entries[static_cast<size_t>(code)]; }

std::string text_of(const ReasonValue& value) { return value.word ? value.word : std::to_string(value.number); }

}  // namespace

const char* name(ReasonCode code) { return entry_of(code).name; }

size_t Reason::count() const {
  const std::string_view text = entry_of(code).text;
  size_t count = 0;
  while (count < values.size() && text.find("{" + std::to_string(count) + "}") != std::string_view::npos) ++count;
  return count;
}

std::string Reason::text() const {
  std::string text = entry_of(code).text;
  for (size_t at = 0; at < values.size(); ++at) {
    const std::string mark = "{" + std::to_string(at) + "}";
    if (const size_t found = text.find(mark); found != std::string::npos)
      text.replace(found, mark.size(), text_of(values[at]));
  }
  return text;
}

}  // namespace tenon::backends
