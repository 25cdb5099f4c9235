// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <tenon/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "base/knobs.h"
#include "cli/described.h"
#include "cli/print.h"
#include "cli/python_verbs.h"
#include "cli/source.h"
#include "cli/verb.h"
#include "cli/wrong_words.h"
#include "vision/video.h"

namespace tenon::cli {

namespace {
void limit(CLI::Option& option, CLI::Validator range, const std::string& words) {
  option.check(range.description(""));
  option.description(option.get_description() + " (" + words + ")");
}
}  // namespace

Flag Flag::required() {
  option_->required();
  return *this;
}
Flag Flag::value(const char* word) {
  option_->type_name(word);
  return *this;
}
Flag Flag::with_default() {
  option_->capture_default_str();
  return *this;
}
Flag Flag::between(int64_t low, int64_t high) {
  limit(*option_, CLI::Range(low, high), fmt::format("{} to {}", low, high));
  return *this;
}
Flag Flag::between(double low, double high) {
  limit(*option_, CLI::Range(low, high), fmt::format("{:g} to {:g}", low, high));
  return *this;
}
Flag Flag::one_each() {
  option_->allow_extra_args(false);
  return *this;
}

namespace {
/// What is done with the paths that an option names.
using PathUse = std::function<void(const std::string& option, const std::string& path)>;
std::map<const CLI::Option*, PathUse>& path_uses() {
  static std::map<const CLI::Option*, PathUse> all;
  return all;
}

std::set<const CLI::Option*>& outputs_of() {
  static std::set<const CLI::Option*> all;
  return all;
}

std::map<const CLI::Option*, std::vector<std::string>>& values_of() {
  static std::map<const CLI::Option*, std::vector<std::string>> all;
  return all;
}

/// The file in "NAME=FILE.npz:KEY"; names may hold "=", too, so the first part that is there counts.
std::string array_file(const std::string& word) {
  const auto without_key = [](const std::string& path) {
    const size_t npz = path.rfind(".npz:");
    return npz == std::string::npos ? path : path.substr(0, npz + 4);
  };
  std::string last = word;
  for (size_t begin = 0;; last = word.substr(begin)) {
    if (struct stat status; ::stat(without_key(last).c_str(), &status) == 0) break;
    const size_t equals = word.find('=', begin);
    if (equals == std::string::npos) break;
    begin = equals + 1;
  }
  return without_key(last);
}

/// Decides about all paths that the words name, what is read first.
void check_paths(const CLI::App& app) {
  for (const bool outputs : {false, true})
    for (const CLI::Option* option : app.get_options()) {
      const auto use = path_uses().find(option);
      if (use == path_uses().end() || outputs_of().count(option) != size_t{outputs}) continue;
      for (const std::string& path : option->results()) use->second(option->get_name(), path);
    }
}
}  // namespace

Flag Flag::one_of(std::vector<std::string> values) {
  values_of()[option_] = std::move(values);
  return *this;
}
Flag Flag::reads(const char* noun) {
  path_uses()[option_] = [noun](const std::string& option, const std::string& path) {
    if (path != "-") paths().read(option, path, noun);
  };
  return *this;
}
Flag Flag::reads_source() {
  path_uses()[option_] = [](const std::string& option, const std::string& path) {
    struct stat status;
    const bool there = ::stat(path.c_str(), &status) == 0;
    const bool is_address = path.find("://") != std::string::npos;
    if (!there && is_address && !vision::is_stream_address(path))
      throw Error(Code::usage, "this kind of address is not known",
                  {.where = option + " " + vision::shown_address(path),
                   .hint = "streams are http, https and rtsp addresses; a file is given by its path"});
    if (there || !(is_pattern(path) || vision::is_stream_address(path))) paths().read(option, path, "the source");
  };
  return *this;
}
Flag Flag::reads_folder() {
  path_uses()[option_] = [](const std::string& option, const std::string& path) { paths().read_folder(option, path); };
  return *this;
}
Flag Flag::reads_array() {
  path_uses()[option_] = [](const std::string& option, const std::string& word) {
    if (word.empty()) throw Error(Code::usage, option + " needs a path", {.where = option, .why = "it is empty"});
    const std::string path = array_file(word);
    // A word that names no file is for the verb to explain: it may be that it names no input.
    if (struct stat status; ::stat(path.c_str(), &status) == 0) paths().read(option, path);
  };
  return *this;
}
Flag Flag::writes(FileKind kind) {
  outputs_of().insert(option_);
  path_uses()[option_] = [kind](const std::string& option, const std::string& path) {
    const bool none = path == "-" && kind == FileKind::timing_cache;
    if (!none) paths().write(option, path, kind);
  };
  return *this;
}
Flag Flag::fills() {
  outputs_of().insert(option_);
  path_uses()[option_] = [](const std::string& option, const std::string& path) { paths().fill(option, path); };
  return *this;
}

Flag Flags::add(const std::string& names, std::string& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, std::vector<std::string>& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, int& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, int64_t& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, float& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, double& to, const std::string& says) {
  return made(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, bool& to, const std::string& says) {
  return made(app_.add_flag(names, to, says));
}
Flag Flags::call(const std::string& names, std::function<void(const std::string&)> take, const std::string& says) {
  return made(app_.add_option_function<std::string>(names, take, says));
}
Flag Flags::call(const std::string& names, std::function<void(int64_t)> take, const std::string& says) {
  return made(app_.add_option_function<int64_t>(names, take, says));
}
Flag Flags::made(CLI::Option* option) const {
  if (!group_.empty()) option->group(group_);
  // The verbs' own words for values; the parser's are names of types.
  if (option->get_items_expected_max() > 0) option->type_name(option->get_positional() ? "" : "N");
  return Flag(option);
}
void Flags::footer(const std::string& text) { app_.footer(text); }

namespace {
constexpr const char* about =
    "Tenon turns ONNX models into engines that run fast on this machine.\n"
    "Results go to stdout, progress to stderr; verbs that report take --json FILE, where - is stdout.";

/// What stands below the verbs in --help.
std::string footer() {
  std::string text = "Exit status: " + std::string(exit_statuses) +
                     "\n"
                     "tenon help VERB shows the options of a verb, with examples.\n\nEnvironment:\n";
  for (const knobs::Knob* knob : knobs::all()) text += fmt::format("  {:<26}{}\n", knob->name, knob->says);
  text.pop_back();
  return text;
}

OptionWords described(const CLI::Option& option) {
  OptionWords words;
  words.is_positional = option.nonpositional() == false;
  if (words.is_positional) words.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  words.says = option.get_description();
  words.group = option.get_group();
  words.is_required = option.get_required();
  if (const auto values = values_of().find(&option); values != values_of().end()) words.values = values->second;
  words.is_path = path_uses().count(&option) > 0;
  words.is_folder = words.is_path && words.value == "DIR";
  return words;
}

/// The words as the parser knows them: "help VERB" is "VERB --help", and "version" is "--version".
std::vector<std::string> canonical(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return words;
  const size_t most = words[0] == "version" ? 1 : words[0] == "help" ? 2 : words.size();
  if (words.size() > most && words[most] != "--help" && words[most] != "-h")
    throw Error(Code::usage, "unexpected word \"" + words[most] + "\"",
                {.hint = most == 1 ? "tenon version takes no other words" : "tenon help takes one verb"});
  if (words[0] == "version") words[0] = "--version";
  if (words[0] != "help") return words;
  words.erase(words.begin());
  if (words.size() == 1 && (words[0] == "help" || words[0] == "version")) words.clear();
  words.push_back("--help");
  return words;
}
std::vector<VerbWords>& all_described() {
  static std::vector<VerbWords> all;
  return all;
}

}  // namespace

std::vector<VerbWords> described() { return all_described(); }

int run_command(int argc, char** argv, const std::string& version) {
  if (is_python_verb(argc, argv)) become_python(argc, argv);
  CLI::App app(about);
  app.name("tenon");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.footer(footer());
  app.set_version_flag("--version", "tenon " + version);
  app.require_subcommand(1);
  int status = 0;
  for (const Verb& verb : verbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.says)->group("Verbs");
    sub->callback([&status, sub, argc, argv, work = verb.add(*sub)] {
      require_dashes(argc, argv);
      check_paths(*sub);
      status = work();
    });
    all_described().push_back({verb.name, verb.says, sub->get_footer(), {}});
    for (const CLI::Option* option : sub->get_options())
      if (option->get_name() != "--help") all_described().back().options.push_back(described(*option));
  }
  if (argc == 1) {
    write_err(app.help());
    return static_cast<int>(Code::usage);
  }
  try {
    std::vector<std::string> words = canonical(argc, argv);
    const auto is_verb = [&](const VerbWords& verb) { return verb.name == words[0]; };
    if (words.size() > 1 && words.back() == "--help" && words[0][0] != '-' &&
        std::none_of(all_described().begin(), all_described().end(), is_verb))
      throw explain_words("", argc, argv);
    std::reverse(words.begin(), words.end());  // as the parser takes them
    app.parse(words);
  } catch (const CLI::CallForVersion& version_text) {
    write_out(version_text.what() + std::string("\n"));
    return 0;
  } catch (const CLI::Success&) {
    write_out(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw explain_words(error.what(), argc, argv);
  }
  return status;
}

}  // namespace tenon::cli
