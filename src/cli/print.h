// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

/// The one place that writes text to the standard streams.
namespace tenon::cli {

/// Throws Error(io).
void write_out(std::string_view text);
/// What stderr does not take is lost, and nothing else: a log on a full disk costs no results.
void write_err(std::string_view text) noexcept;

template <class... Values>
void print_out(fmt::format_string<Values...> form, Values&&... values) {
  write_out(fmt::format(form, std::forward<Values>(values)...));
}
template <class... Values>
void print_err(fmt::format_string<Values...> form, Values&&... values) {
  write_err(fmt::format(form, std::forward<Values>(values)...));
}

/// Whether everything written has reached the standard output.
bool flush_out();
/// Puts /dev/null on those of the three standard streams that are closed, so that no file that is opened takes their
/// place.
void open_standard_streams();

}  // namespace tenon::cli
