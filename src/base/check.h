// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace tenon {
[[noreturn]] void broken_invariant(const char* condition, const char* file, int line, std::string_view message);
}

/// A fault of ours: throws std::logic_error naming the place. Stays in release builds.
#define TENON_CHECK(condition, message) \
  ((condition) ? void() : ::tenon::broken_invariant(#condition, __FILE__, __LINE__, message))
