// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <memory>

#include "cli/described.h"
#include "cli/flags.h"
#include "cli/print.h"
#include "cli/verb.h"

namespace tenon::cli::completion_verb {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> names_of(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names{"help", "version"};
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  return names;
}

std::vector<std::string> flags_of(const VerbWords& verb) {
  std::vector<std::string> flags{"--help"};
  for (const OptionWords& option : verb.options)
    if (!option.is_positional) flags.insert(flags.end(), option.names.begin(), option.names.end());
  return flags;
}

/// Options of a verb whose value is a path, or is not.
std::vector<std::string> flags_with_value(const VerbWords& verb, bool path) {
  std::vector<std::string> flags;
  for (const OptionWords& option : verb.options)
    if (!option.is_positional && !option.value.empty() && option.is_path == path)
      flags.insert(flags.end(), option.names.begin(), option.names.end());
  return flags;
}

std::string bash(const std::vector<VerbWords>& verbs) {
  std::string cases;
  for (const VerbWords& verb : verbs) {
    cases += fmt::format("    {})\n      options=\"{}\"\n", verb.name, joined(flags_of(verb)));
    for (const OptionWords& option : verb.options)
      if (!option.values.empty() && !option.is_positional)
        cases +=
            fmt::format("      case \"$before\" in {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;; esac\n",
                        joined(option.names, "|"), joined(option.values));
    if (const auto flags = flags_with_value(verb, false); !flags.empty())
      cases += fmt::format("      case \"$before\" in {}) return ;; esac\n", joined(flags, "|"));
    cases += "      ;;\n";
  }
  return fmt::format(R"(_tenon() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" options=""
  COMPREPLY=()
  [ "$before" = = ] && before="${{COMP_WORDS[COMP_CWORD-2]}}"
  [ "$word" = = ] && word=""
  if [ "$COMP_CWORD" -eq 1 ] || [ "${{COMP_WORDS[1]}}" = help ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -F _tenon tenon
)",
                     joined(names_of(verbs)), cases);
}

/// Text inside single quotes of a shell, without what has a meaning in a list of options.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') safe += "'\\''";
    else if (c == '[' || c == ']' || c == ':') safe += std::string("\\") + c;
    else safe += c;
  }
  return safe;
}

std::string zsh(const std::vector<VerbWords>& verbs) {
  std::string list, cases;
  for (const VerbWords& verb : verbs) {
    list += fmt::format("    '{}:{}'\n", verb.name, quoted(verb.says));
    cases += fmt::format("    {})\n      _arguments \\\n", verb.name);
    for (const OptionWords& option : verb.options) {
      if (option.is_positional) continue;
      const std::string value = option.value.empty()
                                    ? ""
                                    : fmt::format(":{}:{}", quoted(option.value),
                                                  option.is_folder        ? std::string("_files -/")
                                                  : option.is_path        ? std::string("_files")
                                                  : option.values.empty() ? ""
                                                                          : "(" + joined(option.values) + ")");
      for (const std::string& name : option.names)
        cases += fmt::format("        '*{}[{}]{}' \\\n", name, quoted(option.says), value);
    }
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(R"(#compdef tenon
_tenon() {{
  local -a verbs=(
    'help:Show the help of a verb'
    'version:Show the version'
{}  )
  if (( CURRENT == 2 )) || [[ ${{words[2]}} == help ]]; then
    _describe verb verbs
    return
  fi
  local verb=${{words[2]}}
  shift words
  (( CURRENT-- ))
  case $verb in
{}  esac
}}
if [ "$funcstack[1]" = _tenon ]; then _tenon "$@"; else compdef _tenon tenon; fi
)",
                     list, cases);
}

std::string fish_quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return safe;
}

std::string fish(const std::vector<VerbWords>& verbs) {
  std::string text =
      "complete -c tenon -n __fish_use_subcommand -f -a help -d 'Show the help of a verb'\n"
      "complete -c tenon -n __fish_use_subcommand -f -a version -d 'Show the version'\n";
  for (const VerbWords& verb : verbs) {
    text +=
        fmt::format("complete -c tenon -n __fish_use_subcommand -f -a {} -d '{}'\n", verb.name, fish_quoted(verb.says));
    for (const OptionWords& option : verb.options) {
      if (option.is_positional) continue;
      text += fmt::format("complete -c tenon -n '__fish_seen_subcommand_from {}'", verb.name);
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) text += option.is_path ? " -r -F" : " -x";
      if (!option.values.empty()) text += " -a '" + joined(option.values) + "'";
      text += fmt::format(" -d '{}'\n", fish_quoted(option.says));
    }
  }
  return text;
}

int work(const std::string& shell) {
  const std::vector<VerbWords> verbs = described();
  if (shell == "bash") write_out(bash(verbs));
  else if (shell == "zsh") write_out(zsh(verbs));
  else if (shell == "fish") write_out(fish(verbs));
  else throw Error(Code::usage, "no completion for the shell \"" + shell + "\"", {.hint = "give bash, zsh or fish"});
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto shell = std::make_shared<std::string>();
  flags.add("SHELL", *shell, "bash, zsh or fish").required();
  flags.footer(
      "Examples:\n"
      "  tenon completion bash > ~/.local/share/bash-completion/completions/tenon\n"
      "  tenon completion zsh > ~/.zfunc/_tenon\n"
      "  tenon completion fish > ~/.config/fish/completions/tenon.fish");
  return [shell] { return work(*shell); };
}

const Registrar registrar({12, "completion", "Print the completion of words for a shell", add});

}  // namespace
}  // namespace tenon::cli::completion_verb
