// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tenon {

/// Text with control characters as \xNN, for names that come from files.
std::string printable(const std::string& text);

}  // namespace tenon
