// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

/// Why a kernel does not take a problem: a code, and what its sentence leaves open. Making one allocates nothing.
namespace tenon::backends {

/// Code and sentence; {0} and {1} are the values. The codes' names stand in reports as JSON and stay as they are.
#define TENON_REASONS(X)                                      \
  X(ok, "")                                                   \
  /* The goal, the device and its libraries. */               \
  X(capability, "{0} needs compute capability {1}")           \
  X(instruction_set, "not built for this instruction set")    \
  X(instruction, "the processor has no {0}")                  \
  X(library, "{0} was not found")                             \
  X(vendors, "libraries of vendors are left out")             \
  X(strict, "strict {0} was asked for")                       \
  X(precision, "{0} was not asked for")                       \
  X(no_tile, "no tile fits into shared memory and registers") \
  X(fails, "it does not run on this device")                  \
  X(no_kernel, "no {0} kernel for this op")                   \
  /* Operands. */                                             \
  X(element_type, "{0} must be of {1}")                       \
  X(mixed_types, "operands of several types")                 \
  X(not_constant, "{0} must be constant")                     \
  X(wanted, "{0} are wanted")                                 \
  X(absent, "{0} is absent")                                  \
  X(out_of_range, "an index is out of range")                 \
  X(scales, "scales must be {0}")                             \
  /* Where they lie. */                                       \
  X(layout, "the layout must be {0}")                         \
  X(view, "{0} is a view")                                    \
  X(not_contiguous, "{0} are not contiguous")                 \
  X(gaps, "{0} have gaps")                                    \
  X(unaligned, "unaligned {0}")                               \
  X(broadcast, "{0} is broadcast")                            \
  /* Sizes. */                                                \
  X(empty, "nothing to do")                                   \
  X(too_large, "too large")                                   \
  X(too_many, "more than {0} {1}")                            \
  X(too_few, "fewer than {0} {1}")                            \
  X(not_multiple, "{0} are no multiple of {1}")               \
  X(overflow, "{0} may leave {1} bits")                       \
  X(shape, "{0} must have {1}")                               \
  /* Windows of convolutions and pools. */                    \
  X(window, "the window must be {0}")                         \
  X(strides, "strides must be {0}")                           \
  X(dilated, "dilations must be 1")                           \
  X(padding, "padding must be {0}")                           \
  X(grouped, "it has groups")                                 \
  X(group, "each group must have {0}")                        \
  X(pointwise, "more than a product for each pixel")          \
  X(not_depthwise, "not depthwise")                           \
  /* What is computed. */                                     \
  X(attribute, "its {0} must be {1}")                         \
  X(form, "it is no {0}")                                     \
  X(activation, "its activation must be {0}")                 \
  X(residual, "it adds a residual")                           \
  X(other_kernel, "another kernel is for that")

enum class ReasonCode : uint8_t {
#define TENON_REASON(code, text) code,
  TENON_REASONS(TENON_REASON)
#undef TENON_REASON
};

/// A number, or a word that lives as long as the program.
struct ReasonValue {
  const char* word = nullptr;
  int64_t number = 0;
  constexpr ReasonValue() = default;
  constexpr ReasonValue(const char* word) : word(word) {}
  template <std::integral Integer>
  constexpr ReasonValue(Integer number) : number(static_cast<int64_t>(number)) {}
};

struct Reason {
  // Reason::view is ReasonCode::view.
#define TENON_REASON(code, text) static constexpr ReasonCode code = ReasonCode::code;
  TENON_REASONS(TENON_REASON)
#undef TENON_REASON
  ReasonCode code = ReasonCode::ok;
  std::array<ReasonValue, 2> values;
  constexpr Reason() = default;
  constexpr Reason(ReasonCode code, ReasonValue first = {}, ReasonValue second = {})
      : code(code), values{first, second} {}
  /// Whether there is one: false is "it can".
  constexpr explicit operator bool() const { return code != ReasonCode::ok; }
  /// How many values the code's sentence names.
  size_t count() const;
  std::string text() const;
};

/// As in JSON: "too_many".
const char* name(ReasonCode code);

/// A kernel that does not take a problem, and why.
struct Refusal {
  std::string kernel;
  Reason reason;
};

}  // namespace tenon::backends
