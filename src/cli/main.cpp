#include <fmt/format.h>
#include <tenon/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>

#include "base/knobs.h"
#include "cli/signals.h"
#include "cli/suggest.h"
#include "cli/verb.h"

namespace tenon::cli {
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
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
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
    if (flag.rfind("--", 0) != 0 || std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    const std::string meant = nearest(flag, flags);
    const std::string help = (is_verb ? "tenon " + verb : std::string("tenon")) + " --help lists the options";
    return {Code::usage, "there is no option " + flag, {.hint = meant.empty() ? help : "did you mean " + meant + "?"}};
  }
  return {Code::usage,
          error.what(),
          {.hint = is_verb ? "tenon " + verb + " --help shows how" : "tenon --help lists the verbs"}};
}

int report(const Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return static_cast<int>(error.code());
}

int run(int argc, char** argv) {
  CLI::App app(about);
  app.name("tenon");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->label("Subcommands", "Verbs");
  app.footer(footer());
  app.set_version_flag("--version", "tenon " TENON_VERSION);
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
    return report(explain(error, app, argc, argv));
  }
  return status;
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  using namespace tenon;
  cli::watch_signals();
  int status;
  try {
    status = cli::run(argc, argv);
  } catch (const Error& error) {
    status = cli::interrupted() != 0 ? cli::interrupted() : cli::report(error);
  } catch (const std::bad_alloc&) {
    status = cli::report(Error(Code::resource, "not enough memory"));
  } catch (const std::exception& fault) {
    status = cli::report(
        Error(Code::internal, "a fault in Tenon", {.why = fault.what(), .hint = "please report this with the model"}));
  }
  if (std::fflush(stdout) != 0 && status == 0)
    status = cli::report(Error(Code::io, "cannot write to the standard output"));
  return cli::interrupted() != 0 ? cli::interrupted() : status;
}
