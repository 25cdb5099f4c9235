// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/container.h"

namespace tenon {
namespace {

/// The text that names a CPU's core, the same for its siblings. It is read once: processors do not change.
std::string core_of(int cpu) {
  static std::mutex mutex;
  static std::map<int, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& text = known[cpu];
  if (!text.empty()) return text;
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  if (!std::getline(file, text) || text.empty()) text = std::to_string(cpu);
  return text;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  std::set<std::string> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set) && seen.insert(core_of(cpu)).second) cores.push_back(cpu);
  return cores;
}

int usable_cores() { return usable_cores(static_cast<int>(allowed_cores().size()), recent_container_limits()); }

int usable_cores(int allowed, const ContainerLimits& limits) {
  int cores = allowed;
  if (limits.cores > 0) cores = std::min(cores, static_cast<int>(std::clamp(std::round(limits.cores), 1.0, 65536.0)));
  if (const int listed = cpus_in(limits.cpuset)) cores = std::min(cores, listed);
  return std::max(1, cores);
}

CoreClaim::~CoreClaim() {
  if (socket_ >= 0) ::close(socket_);
}

std::vector<CoreClaim> CoreClaim::of(int count) {
  std::vector<CoreClaim> claims;
  const std::vector<int> cores = allowed_cores();
  // Backwards: what is not pinned tends to the first cores.
  for (auto core = cores.rbegin(); core != cores.rend() && static_cast<int>(claims.size()) < count; ++core) {
    CoreClaim claim;
    claim.core_ = *core;
    claim.socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (claim.socket_ < 0) break;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;  // a first byte of zero makes the name abstract: no file
    const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "tenon.core.%d", *core);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
    if (::bind(claim.socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0)
      claims.push_back(std::move(claim));
  }
  if (static_cast<int>(claims.size()) < count) claims.clear();
  return claims;
}

void CoreClaim::pin() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core_, &set);
  sched_setaffinity(0, sizeof set, &set);  // refused: the thread runs where the system puts it
}

}  // namespace tenon
