// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/knobs.h"
#include "tenon/error.h"

namespace tenon {
namespace {

constexpr int most_steps = 1000;  // along a path with its links

[[noreturn]] void fail(const std::string& path, const std::string& why, const std::string& hint = "") {
  throw Error(Code::io, "cannot use the folder", {.where = path, .why = why, .hint = hint});
}

/// Follows a path from the root on, name by name, each by the descriptor of the folder before.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {
    add(path);
    restart();
    for (int step = 0; !names_.empty(); ++step) {
      if (step == most_steps) fail(path_, std::strerror(ELOOP));
      const std::string name = std::move(names_.back());
      names_.pop_back();
      enter(name);
    }
    if (status_.st_uid != ::geteuid()) fail(where_, "it belongs to another user", hint);
    if (status_.st_mode & others) fail(where_, "other users may write to it", hint);
  }
  Descriptor result() { return std::move(folder_); }

 private:
  static constexpr mode_t others = S_IWGRP | S_IWOTH;
  static constexpr const char* hint = "set TENON_CACHE_DIR to a folder that is yours alone";

  void add(const std::string& path) {
    for (size_t end = path.size(); end > 0;) {
      const size_t slash = path.rfind('/', end - 1);
      const size_t begin = slash == std::string::npos ? 0 : slash + 1;
      if (begin < end && path.compare(begin, end - begin, ".") != 0) names_.push_back(path.substr(begin, end - begin));
      end = slash == std::string::npos ? 0 : slash;
    }
  }

  void restart() {
    where_ = "/";
    take(Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  }

  void take(Descriptor folder) {
    if (!folder || ::fstat(folder.get(), &status_) != 0) fail(where_, std::strerror(errno));
    if (!S_ISDIR(status_.st_mode)) fail(where_, "it is not a folder");
    folder_ = std::move(folder);
  }

  /// Nobody else can exchange what the folder holds: with the sticky bit, not what belongs to this user or root.
  void check_parent() const {
    if (!is_trusted(status_)) fail(where_, "it belongs to another user", hint);
    if ((status_.st_mode & others) && !(status_.st_mode & S_ISVTX)) fail(where_, "other users may write to it", hint);
  }

  static bool is_trusted(const struct stat& status) { return status.st_uid == 0 || status.st_uid == ::geteuid(); }

  void enter(const std::string& name) {
    check_parent();
    const auto open = [&] {
      return Descriptor(::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    };
    where_ = where_ == "/" ? "/" + name : where_ + "/" + name;
    Descriptor next = open();
    if (!next && errno == ENOENT) {
      if (::mkdirat(folder_.get(), name.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail(where_, std::strerror(errno));
      next = open();
    }
    struct stat status;
    if (!next || ::fstat(next.get(), &status) != 0) fail(where_, std::strerror(errno));
    if (S_ISLNK(status.st_mode)) return follow(next, status);
    take(std::move(next));
  }

  void follow(const Descriptor& link, const struct stat& status) {
    if (!is_trusted(status)) fail(where_, "it is a link that another user made", hint);
    std::array<char, PATH_MAX> text;
    const ssize_t size = ::readlinkat(link.get(), "", text.data(), text.size());
    if (size <= 0) fail(where_, std::strerror(errno));
    const std::string target(text.data(), static_cast<size_t>(size));
    add(target);
    if (target[0] == '/') restart();
  }

  std::string path_, where_;
  std::vector<std::string> names_;  // to come, the next one last
  Descriptor folder_;
  struct stat status_ {};
};

}  // namespace

OpenFolder OpenFolder::open(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) fail(path, std::strerror(errno));
  return {std::move(folder), path};
}

OpenFolder OpenFolder::open_private(const std::string& path) {
  std::error_code fault;
  const std::string absolute = std::filesystem::absolute(path, fault);
  if (fault || path.empty()) fail(path, fault ? fault.message() : "it has no name");
  return {Walk(absolute).result(), absolute};
}

std::vector<std::string> OpenFolder::names() const {
  std::vector<std::string> names;
  const int readable = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* list = readable < 0 ? nullptr : ::fdopendir(readable);
  if (!list) fail(path_, std::strerror(errno));
  while (const dirent* entry = ::readdir(list))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  ::closedir(list);
  std::sort(names.begin(), names.end());
  return names;
}

std::shared_ptr<const MappedFile> OpenFolder::map(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  Descriptor file(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) throw Error(Code::io, "cannot open the file", {.where = path, .why = std::strerror(errno)});
  return MappedFile::adopt(std::move(file), path);
}

void OpenFolder::write(const std::string& name, std::span<const std::byte> bytes) const {
  NewFile file(folder_.get(), name, path_ + "/" + name);
  file.write(bytes);
  file.commit();
}

Descriptor OpenFolder::lock_file(const std::string& name) const {
  constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return Descriptor(::openat(folder_.get(), name.c_str(), flags, S_IRUSR | S_IWUSR));
}

std::string cache_path() {
  const auto absolute = [](const std::optional<std::string>& path) { return path && path->front() == '/'; };
  if (const auto own = knobs::value(knobs::cache_dir)) return *own;
  if (const auto xdg = knobs::value(knobs::xdg_cache_home); absolute(xdg)) return *xdg + "/tenon";
  if (const auto home = knobs::value(knobs::home); absolute(home)) return *home + "/.cache/tenon";
  return "";
}

}  // namespace tenon
