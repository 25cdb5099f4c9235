// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tenon::cli {

/// A declared option, for whoever writes about it: help of the shell, manual pages, wrong words.
struct OptionWords {
  std::vector<std::string> names;   // "-o", "--output"; of a positional argument its name
  std::string value, says, group;   // `value` is empty for a switch
  std::vector<std::string> values;  // those that the shell offers
  bool is_positional = false, is_required = false, is_path = false, is_folder = false;
};

struct VerbWords {
  std::string name, says, footer;
  std::vector<OptionWords> options;
};

/// All verbs with their options, as declared.
std::vector<VerbWords> described();

}  // namespace tenon::cli
