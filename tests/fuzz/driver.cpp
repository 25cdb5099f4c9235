// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/limits.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "target.h"

/// Runs a target without libFuzzer: TARGET SECONDS damages the seeds at random; TARGET FILE… replays inputs.
namespace {

using tenon::fuzz::eat;

std::string damaged(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  static const char* const words[] = {
      "-1", "0",  "99999999999999999999", "1e308", "[", "{", "\"", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80",
      "\\", "../"};
  std::string bytes = seeds[random() % seeds.size()];
  for (uint64_t count = 1 + random() % 6; count > 0 && !bytes.empty(); --count) {
    const size_t at = random() % bytes.size();
    switch (random() % 7) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
      case 1: bytes[at] = static_cast<char>(random()); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, 1 + random() % 16); break;
      case 4: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64)); break;
      case 5: bytes.insert(at, words[random() % std::size(words)]); break;
      default: {
        const std::string& other = seeds[random() % seeds.size()];
        bytes = bytes.substr(0, at) + other.substr(std::min(other.size(), random() % (other.size() + 1)));
      }
    }
  }
  return bytes;
}

std::string current, kept;

/// Keeps the input of a crash, then lets the signal do what it does.
void keep(int signal) {
  const int file = ::open(kept.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file >= 0 && ::write(file, current.data(), current.size()) >= 0)
    ::dprintf(STDERR_FILENO, "the input is kept in %s\n", kept.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void try_one(const std::string& bytes) {
  current = bytes;
  try {
    eat({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  } catch (const tenon::Error&) {
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    std::abort();
  }
}

}  // namespace

int main(int count, char** words) {
  kept = (std::filesystem::temp_directory_path() / ("tenon-crash-" + std::to_string(::getpid()))).string();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, keep);
  tenon::set_limits({.memory_bytes = 256 << 20, .loop_rounds = 1000});
  char* end = nullptr;
  const double seconds = count == 2 ? std::strtod(words[1], &end) : 0;
  if (count < 2 || (count == 2 && *end != 0) || count > 2) {
    for (int at = 1; at < count; ++at) {
      std::ifstream file(words[at], std::ios::binary);
      try_one({std::istreambuf_iterator<char>(file), {}});
    }
    return 0;
  }
  const std::vector<std::string> seeds = tenon::fuzz::seeds();
  for (const std::string& seed : seeds) try_one(seed);
  std::mt19937_64 random(1);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  uint64_t tries = 0;
  double slowest = 0;
  for (auto now = begin; std::chrono::duration<double>(now - begin).count() < seconds; ++tries) {
    try_one(damaged(seeds, random));
    const auto after = Clock::now();
    slowest = std::max(slowest, std::chrono::duration<double>(after - now).count());
    now = after;
  }
  std::printf("%lu inputs, the slowest took %.3f s\n", static_cast<unsigned long>(tries), slowest);
  return slowest > 10;
}
