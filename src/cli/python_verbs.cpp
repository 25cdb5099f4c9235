// SPDX-License-Identifier: Apache-2.0
#include "cli/python_verbs.h"

#include <tenon/error.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace tenon::cli {
namespace {

/// For help and manual pages; the work itself never comes here.
std::function<int()> add_verb(CLI::App& app) {
  app.prefix_command();
  app.footer("The options come with the Python package of Tenon: tenon " + app.get_name() +
             " --help shows them where it is installed.\n"
             "To install it, in a clone of Tenon: pip install . (the name tenon on the package index is "
             "another project).");
  return [] { return 0; };
}

const std::array<Registrar, 4> registrars{
    Registrar({12, "export", "Export a PyTorch model to ONNX, and check it (Python)", add_verb}),
    Registrar({13, "plot", "Draw the results of bench --pytorch-model (Python)", add_verb}),
    Registrar({14, "batch", "Run a folder of images or a Parquet file, on one machine or many (Python)", add_verb}),
    Registrar({15, "monitor", "Show the memory of the GPU and the machine while a command runs (Python)", add_verb})};

constexpr const char* program =
    "import importlib.util, sys\n"
    "if importlib.util.find_spec('tenon') is None:\n"
    "    sys.stderr.write('error: \"tenon %s\" needs the Python package of Tenon\\n"
    "  why:     ' % sys.argv[1] + sys.executable + ' does not find it\\n"
    "  you can: pip install . in a clone of Tenon, into that environment; the name tenon on the package index is "
    "another project\\n')\n"
    "    sys.exit(4)\n"
    "from tenon.__main__ import main\n"
    "sys.exit(main(sys.argv[1:]))\n";

}  // namespace

bool is_python_verb(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view verb = argv[1];
  if (verb == "bench")
    return std::any_of(argv + 2, argv + argc, [](std::string_view word) {
      word = word.substr(0, word.find('='));
      return word == "--pytorch-model" || word == "--engines";
    });
  return verb == "export" || verb == "plot" || verb == "batch" || verb == "monitor";
}

void become_python(int argc, char** argv) {
  std::string python = "python3", option = "-c", code = program;
  std::vector<char*> words{python.data(), option.data(), code.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(Code::unsupported, "\"tenon " + std::string(argv[1]) + "\" needs Python",
              {.where = python,
               .why = std::strerror(errno),
               .hint = "install Python 3.9 or newer, then pip install . in a clone of Tenon"});
}

}  // namespace tenon::cli
