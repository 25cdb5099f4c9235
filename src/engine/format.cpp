// SPDX-License-Identifier: Apache-2.0
#include "engine/format.h"

namespace tenon::engine {
namespace {

constexpr char digits[] = "0123456789abcdef";

int digit(char c) {
  const std::string_view all(digits, 16);
  const size_t at = all.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

std::string json_text(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && c != '%') text += c;
    else text += {'%', digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

std::string json_bytes(const std::string& text) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 && digit(text[at + 2]) >= 0;
    if (escape) bytes += static_cast<char>(digit(text[at + 1]) * 16 + digit(text[at + 2])), at += 2;
    else bytes += text[at];
  }
  return bytes;
}

}  // namespace tenon::engine
