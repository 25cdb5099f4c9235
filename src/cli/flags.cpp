// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "base/knobs.h"
#include "base/nearest.h"
#include "cli/python_verbs.h"
#include "cli/verb.h"

namespace tenon::cli {

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
  option_->check(CLI::Range(low, high));
  return *this;
}
Flag Flag::between(double low, double high) {
  option_->check(CLI::Range(low, high));
  return *this;
}
Flag Flag::one_each() {
  option_->allow_extra_args(false);
  return *this;
}

Flag Flags::add(const std::string& names, std::string& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, std::vector<std::string>& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, int& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, int64_t& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, float& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, double& to, const std::string& says) {
  return Flag(app_.add_option(names, to, says));
}
Flag Flags::add(const std::string& names, bool& to, const std::string& says) {
  return Flag(app_.add_flag(names, to, says));
}
Flag Flags::call(const std::string& names, std::function<void(const std::string&)> take, const std::string& says) {
  return Flag(app_.add_option_function<std::string>(names, take, says));
}
Flag Flags::call(const std::string& names, std::function<void(int64_t)> take, const std::string& says) {
  return Flag(app_.add_option_function<int64_t>(names, take, says));
}
void Flags::footer(const std::string& text) { app_.footer(text); }

namespace {
constexpr const char* about =
    "Tenon turns ONNX models into engines that run fast on this machine.\n"
    "stdout is data, stderr is progress; every verb that reports takes --json FILE, where - is stdout.";
constexpr const char* statuses =
    "Exit status: 0 done, 1 internal fault, 2 usage, 3 invalid model, 4 unsupported, 5 bad engine, 6 a check failed,\n"
    "7 resources, 8 input or output, 130 or 143 stopped by a signal.\n"
    "tenon VERB --help shows the options of a verb, with examples.";

/// What stands below the verbs in --help.
std::string footer() {
  std::string text = std::string(statuses) + "\n\nEnvironment:\n";
  for (const knobs::Knob* knob : knobs::all()) text += fmt::format("  {:<26}{}\n", knob->name, knob->says);
  text.pop_back();
  return text;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

/// What a parse error means, with the word that was probably meant.
Error explain(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  std::string verb;
  std::vector<std::string> known;
  for (const Verb& each : verbs()) known.push_back(each.name);
  if (argc > 1) verb = argv[1];
  const bool is_verb = std::find(known.begin(), known.end(), verb) != known.end();
  if (!verb.empty() && verb[0] != '-' && !is_verb) {
    const std::string meant = nearest(verb, known);
    return {Code::usage,
            "there is no verb \"" + verb + "\"",
            {.hint = meant.empty() ? "tenon --help lists the verbs" : "did you mean \"" + meant + "\"?"}};
  }
  const CLI::App& scope = is_verb ? *app.get_subcommand(verb) : app;
  const std::vector<std::string> flags = flags_of(scope);
  for (int at = is_verb ? 2 : 1; at < argc; ++at) {
    const std::string flag = std::string(argv[at]).substr(0, std::string(argv[at]).find('='));
    // -5 is a number, and -oFILE an option with its value.
    const bool is_long = flag.rfind("--", 0) == 0;
    const bool is_short = flag.size() == 2 && flag[0] == '-' && std::isalpha(static_cast<unsigned char>(flag[1]));
    if ((!is_long && !is_short) || std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    const std::string meant = is_long ? nearest(flag, flags) : "";
    const std::string help = (is_verb ? "tenon " + verb : std::string("tenon")) + " --help lists the options";
    return {Code::usage, "there is no option " + flag, {.hint = meant.empty() ? help : "did you mean " + meant + "?"}};
  }
  return {Code::usage,
          error.what(),
          {.hint = is_verb ? "tenon " + verb + " --help shows how" : "tenon --help lists the verbs"}};
}

}  // namespace

int run_command(int argc, char** argv, const std::string& version) {
  if (is_python_verb(argc, argv)) become_python(argc, argv);
  CLI::App app(about);
  app.name("tenon");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->label("Subcommands", "Verbs");
  app.footer(footer());
  app.set_version_flag("--version", "tenon " + version);
  app.require_subcommand(1);
  int status = 0;
  for (const Verb& verb : verbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.says);
    sub->callback([&status, work = verb.add(*sub)] { status = work(); });
  }
  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return static_cast<int>(Code::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    throw explain(error, app, argc, argv);
  }
  return status;
}

}  // namespace tenon::cli
