// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>

#include "base/counted.h"
#include "cli/options.h"

namespace tenon::cli {

Profile parse_profile(const std::string& text) {
  Profile profile;
  std::string rest = text;
  if (const size_t equals = text.find('='); equals < text.find(':')) {
    profile.name = text.substr(0, equals);
    rest = text.substr(equals + 1);
  }
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::usage, fmt::format("\"{}\" is not a profile", text),
                {.where = "--profile",
                 .why = why,
                 .hint = "write NAME:LEAST..BEST..MOST, as in images:1x3x64x64..1x3x320x320..8x3x640x640"});
  };
  size_t begin = 0;
  while (begin <= rest.size()) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    const std::string part = rest.substr(begin, end - begin);
    const size_t colon = part.rfind(':');
    if (colon == std::string::npos || colon == 0) refuse(fmt::format("\"{}\" does not name an input", part));
    const std::string input = part.substr(0, colon);
    std::vector<std::vector<int64_t>> sizes;
    for (size_t from = colon + 1; from <= part.size();) {
      const size_t to = std::min(part.find("..", from), part.size());
      sizes.push_back(parse_shapes("x:" + part.substr(from, to - from)).at("x"));
      from = to + 2;
    }
    if (sizes.empty() || sizes.size() > 3) refuse(fmt::format("\"{}\" has {}", part, counted(sizes.size(), "size")));
    profile.min[input] = sizes.front();
    profile.max[input] = sizes.back();
    profile.opt[input] = sizes.size() == 3 ? sizes[1] : sizes.back();
    begin = end + 1;
  }
  return profile;
}

std::pair<std::string, std::string> parse_carried(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(Code::usage, fmt::format("\"{}\" does not name an output and an input", text),
                {.where = "--state", .hint = "write OUTPUT=INPUT, as in present.0.key=past.0.key"});
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace tenon::cli
