// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "backends/backend.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"

namespace tenon::cli::kernels_verb {
namespace {

struct Options {
  std::string action, file, json;
  bool trust = false;
};

int work(const Options& options) {
  if (options.action != "export" && options.action != "import")
    throw Error(Code::usage, "kernels are exported or imported, not \"" + options.action + "\"",
                {.hint = "tenon kernels export FILE, or tenon kernels import FILE"});
  const bool out = options.action == "export";
  if (!out && !options.trust)
    throw Error(Code::usage, "a pack of kernels is machine code that runs as this user",
                {.where = options.file,
                 .why = "its hashes tell damage, not who made it",
                 .hint = "give --trust where you would run a program of whoever made it"});
  if (out) paths().write("FILE", options.file, FileKind::kernel_pack);
  else paths().read("FILE", options.file);
  const Device device(std::string("cuda"));
  const backends::Backend& gpu = backends::backend(device);
  const backends::KernelCount count = out ? gpu.export_kernels(options.file) : gpu.import_kernels(options.file);
  if (!options.json.empty())
    write_json(options.json, {{"file", options.file}, {"kernels", count.kernels}, {"bytes", count.bytes}});
  if (options.json != "-")
    print_out("{}  {}, {} {}\n", printable(options.file), counted(count.kernels, "kernel"), bytes_text(count.bytes),
              out ? "written" : "put into the cache");
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto options = std::make_shared<Options>();
  flags.add("ACTION", options->action, "export: the cache to a file; import: a file into the cache").required();
  flags.add("FILE", options->file, "The pack").required();
  flags.add("--trust", options->trust, "Import machine code of whoever made the pack");
  add_json(app, options->json);
  flags.footer(
      "Compiled GPU kernels are machine code for one kind of GPU: a machine with the same one and no NVRTC runs from\n"
      "an imported pack. Its hashes tell damage, not intent: import packs, by --trust, from sources whose programs "
      "you\n"
      "would run.\n"
      "Examples:\n"
      "  tenon kernels export kernels.pack\n"
      "  tenon kernels import kernels.pack --trust");
  return [options] { return work(*options); };
}

const Registrar registrar({11, "kernels", "Copy compiled GPU kernels to machines without a compiler", add});

}  // namespace
}  // namespace tenon::cli::kernels_verb
