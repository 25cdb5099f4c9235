#include "onnx/external.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
    const int next = ::openat(current, part.empty() ? "." : part.c_str(), flags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
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

}  // namespace

std::shared_ptr<const MappedFile> ExternalData::file(const std::string& location, const std::string& tensor) {
  const auto found = files_.find(location);
  if (found != files_.end()) return found->second;
  const std::string where = "tensor '" + tensor + "', external file '" + location + "'";
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_model, "external data is refused",
                {.where = where, .why = why, .hint = "keep the data file inside the model's folder"});
  };
  if (folder_.empty()) refuse("the model has no folder");
  if (location.empty()) refuse("the location is empty");
  if (location.find('\0') != std::string::npos) refuse("the location holds a zero byte");
  if (location.front() == '/') refuse("the location is an absolute path");
  if (has_parent_step(location)) refuse("the location leaves the model's folder");
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) throw Error(Code::io, "cannot open the model's folder", {.where = folder_, .why = std::strerror(errno)});
  const int descriptor = open_beneath(folder, location);
  const int error = errno;
  ::close(folder);
  if (descriptor < 0 && (error == ELOOP || error == EXDEV)) refuse("a symbolic link is on the way");
  if (descriptor < 0) throw Error(Code::io, "cannot open external data", {.where = where, .why = std::strerror(error)});
  struct stat status;
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    ::close(descriptor);
    refuse("the file has a second name (a hard link)");
  }
  auto file = MappedFile::adopt(descriptor, folder_ + "/" + location);
  files_.emplace(location, file);
  return file;
}

}  // namespace tenon::onnx
