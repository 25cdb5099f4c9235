// SPDX-License-Identifier: Apache-2.0
#include "onnx/external.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tenon/error.h"

namespace tenon::onnx {
namespace {

constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// Kernels before 5.6 lack openat2: every component is then opened without following links.
int open_step_by_step(int folder, const std::string& location) {
  int current = ::dup(folder);
  for (size_t at = 0; current >= 0;) {
    const size_t slash = location.find('/', at);
    const bool last = slash == std::string::npos;
    const std::string part = location.substr(at, last ? std::string::npos : slash - at);
    const int next =
        ::openat(current, part.empty() ? "." : part.c_str(), flags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    const int error = errno;
    ::close(current);
    errno = error;
    if (last) return next;
    current = next;
    at = slash + 1;
  }
  return current;
}

int open_beneath(int folder, const std::string& location) {
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long descriptor = ::syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how));
  if (descriptor >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(descriptor);
  return open_step_by_step(folder, location);
}

bool has_parent_step(const std::string& location) {
  for (size_t at = 0; at <= location.size();) {
    const size_t slash = std::min(location.find('/', at), location.size());
    if (location.compare(at, slash - at, "..") == 0) return true;
    at = slash + 1;
  }
  return false;
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : "";
}

int open_folder(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

/// Opens a resolved path where it lies in a resolved folder; links put there meanwhile are not followed.
int open_real(const std::string& path, const std::string& inside) {
  if (inside.empty() || path.size() <= inside.size() + 1 || path.compare(0, inside.size(), inside) != 0 ||
      path[inside.size()] != '/')
    return -1;
  const int folder = open_folder(inside);
  if (folder < 0) return -1;
  const int descriptor = open_beneath(folder, path.substr(inside.size() + 1));
  ::close(folder);
  return descriptor;
}

}  // namespace

int ExternalData::open_widened(const std::string& location) const {
  const std::string path = real_path(location.front() == '/' ? location : folder_ + "/" + location);
  if (path.empty()) return -1;
  if (!root_.empty())
    if (const int descriptor = open_real(path, real_path(root_)); descriptor >= 0) return descriptor;
  struct stat status;
  if (model_.empty() || ::lstat(model_.c_str(), &status) != 0 || !S_ISLNK(status.st_mode) || location.front() == '/' ||
      has_parent_step(location))
    return -1;
  const std::string model = real_path(model_);
  return open_real(path, model.substr(0, model.rfind('/')));
}

std::shared_ptr<const MappedFile> ExternalData::file(const std::string& location, const std::string& tensor) {
  const auto found = files_.find(location);
  if (found != files_.end()) return found->second;
  const std::string where = "tensor '" + tensor + "', external file '" + location + "'";
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_model, "external data is refused",
                {.where = where,
                 .why = why,
                 .hint = "keep the data file inside the model's folder, or name its folder with --external-root"});
  };
  if (folder_.empty()) refuse("the model has no folder");
  if (location.empty()) refuse("the location is empty");
  if (location.find('\0') != std::string::npos) refuse("the location holds a zero byte");
  int descriptor = open_widened(location);
  const bool widened = descriptor >= 0;
  if (!widened) {
    if (location.front() == '/') refuse("the location is an absolute path");
    if (has_parent_step(location)) refuse("the location leaves the model's folder");
    const int folder = open_folder(folder_);
    if (folder < 0)
      throw Error(Code::io, "cannot open the model's folder", {.where = folder_, .why = std::strerror(errno)});
    descriptor = open_beneath(folder, location);
    const int error = errno;
    ::close(folder);
    if (descriptor < 0 && (error == ELOOP || error == EXDEV)) refuse("the path goes through a symbolic link");
    if (descriptor < 0)
      throw Error(Code::io, "cannot open external data", {.where = where, .why = std::strerror(error)});
  }
  struct stat status;
  if (!widened && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    ::close(descriptor);
    refuse("the file has a second name (a hard link)");
  }
  auto file = MappedFile::adopt(Descriptor(descriptor), folder_ + "/" + location);
  files_.emplace(location, file);
  return file;
}

Files ExternalData::files() const {
  Files all;
  for (const auto& [location, file] : files_) all.push_back(file);
  return all;
}

}  // namespace tenon::onnx
