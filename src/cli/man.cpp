// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>
#include <tenon/version.h>

#include <algorithm>
#include <memory>

#include "base/knobs.h"
#include "cli/described.h"
#include "cli/flags.h"
#include "cli/print.h"
#include "cli/verb.h"

namespace tenon::cli::man_verb {
namespace {

/// Text for roff: what begins a command or a special sign is told to be text.
std::string plain(const std::string& text) {
  std::string safe;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) safe += "\\&";
    begins = c == '\n';
    if (c == '\\') safe += "\\e";
    else if (c == '-') safe += "\\-";
    else safe += c;
  }
  return safe;
}

std::string head(const std::string& page, const std::string& name, const std::string& says) {
  return fmt::format(".TH {} 1 \"\" \"tenon {}\"\n.SH NAME\n{} \\- {}\n", page, version(), plain(name), plain(says));
}

std::string option_text(const OptionWords& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + ("\\fB" + plain(name) + "\\fR");
  if (!option.value.empty() && !option.is_positional) names += " \\fI" + plain(option.value) + "\\fR";
  return ".TP\n" + names + "\n" + plain(option.says) + (option.is_required ? " (required)" : "") + "\n";
}

/// The page of one verb.
std::string page_of(const VerbWords& verb) {
  std::string text = head("TENON\\-" + verb.name, "tenon-" + verb.name, verb.says);
  text += ".SH SYNOPSIS\n\\fBtenon " + verb.name + "\\fR";
  for (const OptionWords& option : verb.options)
    if (option.is_positional) text += " \\fI" + plain(option.names[0]) + "\\fR";
  text += " [options]\n";
  std::vector<std::string> groups;
  for (const OptionWords& option : verb.options)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  for (const std::string& group : groups) {
    text += ".SH \"" + plain(group) + "\"\n";
    for (const OptionWords& option : verb.options)
      if (option.group == group) text += option_text(option);
  }
  if (!verb.footer.empty()) text += ".SH NOTES\n.nf\n" + plain(verb.footer) + "\n.fi\n";
  return text + ".SH SEE ALSO\ntenon(1)\n";
}

std::string overview(const std::vector<VerbWords>& verbs) {
  std::string text = head("TENON", "tenon", "optimise and run ONNX models");
  text += ".SH SYNOPSIS\n\\fBtenon\\fR \\fIVERB\\fR [options]\n.SH VERBS\n";
  for (const VerbWords& verb : verbs) text += ".TP\n\\fBtenon\\-" + verb.name + "\\fR(1)\n" + plain(verb.says) + "\n";
  text += ".SH ENVIRONMENT\n";
  for (const knobs::Knob* knob : knobs::all())
    text += ".TP\n\\fB" + std::string(knob->name) + "\\fR\n" + plain(knob->says) + "\n";
  return text + ".SH \"EXIT STATUS\"\n" + plain(exit_statuses) + "\n";
}

int work(const std::string& name) {
  const std::vector<VerbWords> verbs = described();
  if (name.empty()) {
    write_out(overview(verbs));
    return 0;
  }
  const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const VerbWords& each) { return each.name == name; });
  if (verb == verbs.end())
    throw Error(Code::usage, "there is no verb \"" + name + "\"", {.hint = "tenon --help lists the verbs"});
  write_out(page_of(*verb));
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto name = std::make_shared<std::string>();
  flags.add("VERB", *name, "The page of this verb; default: the page of the command");
  flags.footer(
      "Example:\n"
      "  tenon man build | man -l -");
  return [name] { return work(*name); };
}

const Registrar registrar({13, "man", "Print a manual page, as roff", add});

}  // namespace
}  // namespace tenon::cli::man_verb
