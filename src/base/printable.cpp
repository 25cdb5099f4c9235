// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <fmt/format.h>

namespace tenon {

std::string printable(const std::string& text) {
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) clean += fmt::format("\\x{:02x}", byte);
    else clean += c;
  }
  return clean;
}

}  // namespace tenon
