// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <string>

/// What the command says on stderr beside its progress. Its first word is coloured on a terminal, where NO_COLOR is not
/// set.
namespace tenon::cli {

void tell(const Error& error);
void warn(const std::string& text);
/// `word` as "note" or "info".
void note(const std::string& text, const std::string& word = "note");

}  // namespace tenon::cli
