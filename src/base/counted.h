// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <string>
#include <string_view>

namespace tenon {

/// "1 image", "2 images", "1 axis", "0 axes": a number, as text, with its noun, which is given in the singular.
std::string counted(const std::string& number, std::string_view noun);

template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return counted(std::to_string(count), noun);
}

}  // namespace tenon
