// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/version.h>

#include <filesystem>
#include <new>

#include "cli/flags.h"
#include "cli/notes.h"
#include "cli/print.h"
#include "cli/signals.h"

namespace tenon::cli {
namespace {

int report(const Error& error) {
  tell(error);
  return static_cast<int>(error.code());
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  using namespace tenon;
  cli::open_standard_streams();
  cli::watch_signals();
  int status;
  try {
    status = cli::run_command(argc, argv, version());
  } catch (const Error& error) {
    status = cli::interrupted() != 0 ? cli::interrupted() : cli::report(error);
  } catch (const std::bad_alloc&) {
    status = cli::report(Error(Code::resource, "not enough memory"));
  } catch (const std::filesystem::filesystem_error& fault) {
    status = cli::report(
        Error(Code::io, "cannot use the path", {.where = fault.path1().string(), .why = fault.code().message()}));
  } catch (const std::exception& fault) {
    status = cli::report(
        Error(Code::internal, "a fault in Tenon", {.why = fault.what(), .hint = "please report this with the model"}));
  }
  if (!cli::flush_out() && status == 0) status = cli::report(Error(Code::io, "cannot write to the standard output"));
  return cli::interrupted() != 0 ? cli::interrupted() : status;
}
