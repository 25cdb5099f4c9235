// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  /// Takes one value each time it is given, not all the words that follow.
  Flag one_each();

 private:
  CLI::Option* option_;
};

/// Declares the options of a verb. The parser's own header takes seconds to compile, so only flags.cpp reads it.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

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
  CLI::App& app_;
};

/// Reads the words of the command and runs the verb that they name; the exit status. Throws Error(usage) for words that
/// it does not know, and what the verb throws.
int run_command(int argc, char** argv, const std::string& version);

}  // namespace tenon::cli
