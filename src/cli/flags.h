// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/paths.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tenon::cli {

/// One declared option, for what is not told when it is added. Each call gives the option back.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag required();
  /// The word for the value in --help.
  Flag value(const char* word);
  /// Shows the variable's present value in --help.
  Flag with_default();
  Flag between(int64_t low, int64_t high);
  Flag between(double low, double high);
  /// The values that the shell offers; the verb itself checks them.
  Flag one_of(std::vector<std::string> values);
  /// Takes one value each time it is given, not all the words that follow.
  Flag one_each();
  /// The value is a path that must be there; `noun` is what messages call it.
  Flag reads(const char* noun = "the file");
  Flag reads_folder();
  /// The value is a path that must be there, or a pattern of names, whose files the verb looks for.
  Flag reads_source();
  /// The value is NAME=FILE or FILE, where FILE may be an archive with a key: FILE.npz:KEY.
  Flag reads_array();
  /// The value is a file to write.
  Flag writes(FileKind kind);
  /// The value is a file that is read where it is there, and written.
  Flag keeps(FileKind kind) { return writes(kind); }
  /// The value is a folder to make or to fill.
  Flag fills();

 private:
  CLI::Option* option_;
};

/// Declares the options of a verb. The parser's own header takes seconds to compile, so only flags.cpp reads it.
class Flags {
 public:
  /// `group` is the heading in --help of the options that follow.
  explicit Flags(CLI::App& app, std::string group = "") : app_(app), group_(std::move(group)) {}
  void group(const std::string& name) { group_ = name; }

  /// `names` as "-o,--output", or a word without dashes for a positional argument. `to` must outlive the parser.
  Flag add(const std::string& names, std::string& to, const std::string& says);
  Flag add(const std::string& names, std::vector<std::string>& to, const std::string& says);
  Flag add(const std::string& names, int& to, const std::string& says);
  Flag add(const std::string& names, int64_t& to, const std::string& says);
  Flag add(const std::string& names, float& to, const std::string& says);
  Flag add(const std::string& names, double& to, const std::string& says);
  Flag add(const std::string& names, bool& to, const std::string& says);
  /// Calls `take` with the value.
  Flag call(const std::string& names, std::function<void(const std::string&)> take, const std::string& says);
  Flag call(const std::string& names, std::function<void(int64_t)> take, const std::string& says);
  /// What stands below the options in --help.
  void footer(const std::string& text);

 private:
  Flag made(CLI::Option* option) const;
  CLI::App& app_;
  std::string group_;
};

/// What the exit statuses mean.
inline constexpr const char* exit_statuses =
    "0 done, 1 internal fault, 2 usage, 3 invalid model, 4 unsupported, 5 bad engine, 6 a check failed,\n"
    "7 resources, 8 input or output, 130 or 143 stopped by a signal.";

/// Reads the words of the command and runs the verb that they name; the exit status. Throws Error(usage) for words that
/// it does not know, and what the verb throws.
int run_command(int argc, char** argv, const std::string& version);

}  // namespace tenon::cli
