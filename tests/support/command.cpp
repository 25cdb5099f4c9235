// SPDX-License-Identifier: Apache-2.0
#include "support/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace tenon::test {
namespace {

// Times that sanitizers stretch: ThreadSanitizer by more than AddressSanitizer.
#if defined(__SANITIZE_THREAD__)
constexpr int slower = 15;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int slower = 5;
#else
constexpr int slower = 1;
#endif

}  // namespace

Folder::Folder() {
  char pattern[] = "/tmp/tenon_test_XXXXXX";
  if (!::mkdtemp(pattern)) throw std::runtime_error("cannot make a folder under /tmp");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code fault;
  std::filesystem::remove_all(path_, fault);
}

void Folder::write(const std::string& name, const std::string& bytes) const {
  // A new file: some file systems wait for the disk when an old one is truncated and written.
  std::filesystem::remove(path_ + "/" + name);
  std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome run_tenon(const Folder& folder, const std::vector<std::string>& words, int seconds) {
  const Folder streams;
  std::vector<char*> arguments{const_cast<char*>(TENON_COMMAND)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string out = streams / "out", err = streams / "err";
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY), to_out = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600),
              to_err = ::open(err.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(nothing, 0), ::dup2(to_out, 1), ::dup2(to_err, 2);
    // Processor time, for on a busy machine anything lasts.
    const auto limit = static_cast<rlim_t>(seconds * slower);
    const rlimit most{limit, limit};
    ::setrlimit(RLIMIT_CPU, &most);
    if (::chdir(folder.path().c_str()) == 0) ::execv(TENON_COMMAND, arguments.data());
    ::_exit(127);
  }
  Outcome outcome;
  int status = 0;
  rusage used{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20 * seconds * slower);
  while (::wait4(child, &status, WNOHANG, &used) == 0) {
    if (std::chrono::steady_clock::now() > end) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.out = read_text(out);
  outcome.err = read_text(err);
  outcome.peak_kib = used.ru_maxrss;
  return outcome;
}

}  // namespace tenon::test
