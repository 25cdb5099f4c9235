// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tenon::cli {

namespace {
constexpr unsigned grace_seconds = 5;
constexpr int io_status = 8;
std::atomic<int> status{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  if (signal == SIGALRM) _exit(status.load());
  if (status.exchange(128 + signal) != 0) _exit(128 + signal);
  alarm(grace_seconds);
}

/// A mapped file that another process cuts off, or a disk that fails, arrives here.
void lost_file(int) {
  static constexpr char text[] =
      "error: a file that was being read is gone in part\n"
      "  why:     it was cut off by another program, or its disk failed\n"
      "  you can: copy it again, and let nothing write to it while it is read\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(io_status);
  _exit(io_status);
}
}  // namespace

void watch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGALRM}) std::signal(signal, note);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGBUS, lost_file);
}

int interrupted() { return status.load(); }

}  // namespace tenon::cli
