// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <cstdint>
#include <string>

namespace tenon {

/// Arithmetic on sizes that come from files; throws Error(resource) naming `what` when the result leaves int64.
inline int64_t checked_mul(int64_t a, int64_t b, const char* what = "size") {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    throw Error(Code::resource, std::string("the ") + what + " is too large",
                {.why = std::to_string(a) + " x " + std::to_string(b) + " is more than 64 bits hold"});
  return result;
}

inline int64_t checked_add(int64_t a, int64_t b, const char* what = "size") {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    throw Error(Code::resource, std::string("the ") + what + " is too large",
                {.why = std::to_string(a) + " + " + std::to_string(b) + " is more than 64 bits hold"});
  return result;
}

}  // namespace tenon
