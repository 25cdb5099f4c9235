// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"

#include <utility>

namespace tenon {
namespace {

constexpr std::pair<std::string_view, std::string_view> irregular[] = {{"axis", "axes"}, {"index", "indices"}};

/// Of the noun's last word: "key point" has "key points".
std::string plural(std::string_view noun) {
  const size_t last = noun.rfind(' ') + 1;
  for (const auto& [one, many] : irregular)
    if (noun.substr(last) == one) return std::string(noun.substr(0, last)) + std::string(many);
  const std::string text(noun);
  if (text.ends_with('s') || text.ends_with('x') || text.ends_with("ch")) return text + "es";
  const bool consonant = text.size() > 1 && std::string_view("aeiou").find(text[text.size() - 2]) == std::string::npos;
  return text.ends_with('y') && consonant ? text.substr(0, text.size() - 1) + "ies" : text + "s";
}

}  // namespace

std::string counted(const std::string& number, std::string_view noun) {
  return number + " " + (number == "1" ? std::string(noun) : plural(noun));
}

}  // namespace tenon
