#include "cli/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tenon::cli {

namespace {
constexpr unsigned grace_seconds = 2;
std::atomic<int> status{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  if (signal == SIGALRM) _exit(status.load());
  if (status.exchange(128 + signal) != 0) _exit(128 + signal);
  alarm(grace_seconds);
}
}  // namespace

void watch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGALRM}) std::signal(signal, note);
  std::signal(SIGPIPE, SIG_DFL);
}

int interrupted() { return status.load(); }

}  // namespace tenon::cli
