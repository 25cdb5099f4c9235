// SPDX-License-Identifier: Apache-2.0
#include "cli/print.h"

#include <fcntl.h>
#include <tenon/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tenon::cli {

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw Error(Code::io, "cannot write to the standard output", {.why = std::strerror(errno)});
}

void write_err(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

bool flush_out() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one, as those below it are open.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) != stream) return;
  }
}

}  // namespace tenon::cli
