// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <string>

namespace tenon::cli {

/// What is wrong with the words of a command that the parser refused with `what`, and what was probably meant: near
/// names, options of other verbs, and the names that other tools have for the same thing.
Error explain_words(const std::string& what, int argc, char** argv);

/// Throws Error(usage) where a word of the verb's is an option as "conf=0.3", and no file.
void require_dashes(int argc, char** argv);

}  // namespace tenon::cli
