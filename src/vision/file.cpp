#include "vision/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tenon/error.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tenon::vision {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw Error(Code::io, what, {.where = path, .why = std::strerror(errno)});
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

std::vector<uint8_t> read_file(const std::string& path, int64_t limit) {
  // O_NONBLOCK keeps a named pipe from blocking the open; it has no effect on regular files.
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail("cannot open the file", path);
  struct stat status {};
  if (fstat(file.fd, &status) != 0) fail("cannot read the file", path);
  if (!S_ISREG(status.st_mode)) throw Error(Code::io, "not a regular file", {.where = path});
  if (status.st_size > limit)
    throw Error(
        Code::resource, "the file is too large",
        {.where = path, .why = std::to_string(status.st_size) + " bytes, the limit is " + std::to_string(limit)});
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(file.fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the file", path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::string temporary_beside(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + "." + std::to_string(getpid()) + "." + std::to_string(count++) + ".tmp";
}

void commit_file(const std::string& temporary, const std::string& path) {
  if (rename(temporary.c_str(), path.c_str()) == 0) return;
  const int cause = errno;
  unlink(temporary.c_str());
  errno = cause;
  fail("cannot write the file", path);
}

void write_file(const std::string& path, std::span<const uint8_t> bytes) {
  const std::string temporary = temporary_beside(path);
  {
    Descriptor file{open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (file.fd < 0) fail("cannot write the file", path);
    while (!bytes.empty()) {
      const ssize_t put = write(file.fd, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int cause = errno;
        unlink(temporary.c_str());
        errno = cause;
        fail("cannot write the file", path);
      }
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
  }
  commit_file(temporary, path);
}

}  // namespace tenon::vision
