// SPDX-License-Identifier: Apache-2.0
#include "base/container.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr int most_levels = 64;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool contains(const std::vector<std::string>& parts, const std::string& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

/// The number that a file begins with; nothing for "max", for numbers that stand for no limit, and without the file.
std::optional<int64_t> number_in(const std::string& path) {
  constexpr int64_t no_limit = INT64_MAX / 2;  // version 1 writes the largest multiple of a page
  int64_t value = 0;
  std::ifstream file(path);
  return file >> value && value >= 0 && value < no_limit ? std::optional(value) : std::nullopt;
}

/// "key value" lines.
int64_t entry_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  for (int64_t value; file >> name >> value;)
    if (name == key) return value;
  return 0;
}

/// A mounted hierarchy, and where this process's group is in it.
struct Hierarchy {
  std::string mount, group;
  /// The group's folder and those around it, down to the mount.
  std::vector<std::string> folders() const {
    std::vector<std::string> list;
    std::error_code fault;
    fs::path at = group;
    for (int level = 0; level < most_levels; ++level, at = at.parent_path()) {
      const std::string folder = at == "/" ? mount : mount + at.string();
      if (fs::is_directory(folder, fault)) list.push_back(folder);
      if (!at.has_relative_path()) break;
    }
    return list;
  }
};

/// The group's path below the part of the hierarchy that is mounted: a container often sees its own group as the root.
std::string below(const std::string& group, const std::string& mounted) {
  if (mounted == "/" || mounted.empty()) return group;
  if (group == mounted) return "/";
  return group.starts_with(mounted + "/") ? group.substr(mounted.size()) : group;
}

/// The hierarchy of a controller; "" is that of version 2. Nothing where it is not mounted.
std::optional<Hierarchy> hierarchy(const std::string& root, const std::string& controller) {
  std::string group;
  std::ifstream groups(root + "/proc/self/cgroup");
  bool found = false;
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !names.empty() : !contains(split(names, ','), controller)) continue;
    group = line.substr(second + 1);
    found = true;
  }
  if (!found) return std::nullopt;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {  // id parent device root mount options … - type source options
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line, ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool fits =
        controller.empty() ? after[0] == "cgroup2" : after[0] == "cgroup" && contains(split(after[2], ','), controller);
    if (fits) return Hierarchy{root + before[4], below(group, before[3])};
  }
  return std::nullopt;
}

void tighten(double& cores, std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double allowed = static_cast<double>(*quota) / static_cast<double>(*period);
  if (cores == 0 || allowed < cores) cores = allowed;
}

void tighten(ContainerLimits& limits, std::optional<int64_t> most, int64_t used, int64_t cached) {
  if (!most) return;
  const int64_t left = std::max<int64_t>(0, *most - std::max<int64_t>(0, used - cached));
  limits.free_bytes = limits.memory_bytes == 0 ? left : std::min(limits.free_bytes, left);
  limits.memory_bytes = limits.memory_bytes == 0 ? *most : std::min(limits.memory_bytes, *most);
}

std::string line_in(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

void read_version_2(const Hierarchy& from, ContainerLimits& limits) {
  for (const std::string& folder : from.folders()) {
    std::ifstream quota(folder + "/cpu.max");  // "max 100000" or "200000 100000"
    int64_t most = 0, period = 0;
    if (quota >> most >> period) tighten(limits.cores, most, period);
    tighten(limits, number_in(folder + "/memory.max"), number_in(folder + "/memory.current").value_or(0),
            entry_in(folder + "/memory.stat", "inactive_file"));
    if (limits.cpuset.empty()) limits.cpuset = line_in(folder + "/cpuset.cpus.effective");
  }
}

void read_version_1(const std::string& root, ContainerLimits& limits) {
  if (const auto cpu = hierarchy(root, "cpu"))
    for (const std::string& folder : cpu->folders())
      tighten(limits.cores, number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"));
  if (const auto memory = hierarchy(root, "memory"))
    for (const std::string& folder : memory->folders())
      tighten(limits, number_in(folder + "/memory.limit_in_bytes"),
              number_in(folder + "/memory.usage_in_bytes").value_or(0),
              entry_in(folder + "/memory.stat", "total_inactive_file"));
  if (const auto cpuset = hierarchy(root, "cpuset"))
    for (const std::string& folder : cpuset->folders())
      for (const char* name : {"/cpuset.effective_cpus", "/cpuset.cpus"})
        if (limits.cpuset.empty()) limits.cpuset = line_in(folder + name);
}

}  // namespace

ContainerLimits container_limits(const std::string& root) {
  ContainerLimits limits;
  // Both may be mounted, with the controllers shared out between them.
  if (hierarchy(root, "memory") || hierarchy(root, "cpu") || hierarchy(root, "cpuset")) {
    limits.version = 1;
    read_version_1(root, limits);
  }
  if (const auto unified = hierarchy(root, "")) {
    if (limits.version == 0) limits.version = 2;
    read_version_2(*unified, limits);
  }
  return limits;
}

ContainerLimits recent_container_limits() {
  using Clock = std::chrono::steady_clock;
  static std::mutex mutex;
  static ContainerLimits known;
  static std::optional<Clock::time_point> read_at;
  const std::lock_guard lock(mutex);
  const auto now = Clock::now();
  if (!read_at || now - *read_at > std::chrono::seconds(1)) known = container_limits(), read_at = now;
  return known;
}

int cpus_in(const std::string& list) {
  int count = 0;
  for (const std::string& part : split(list, ',')) {
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto [at, fault] = std::from_chars(part.data(), end, first);
    if (fault != std::errc()) return 0;
    last = first;
    if (at != end) {
      if (*at != '-' || std::from_chars(at + 1, end, last).ptr != end) return 0;
    }
    if (first < 0 || last < first) return 0;
    count += last - first + 1;
  }
  return count;
}

}  // namespace tenon
