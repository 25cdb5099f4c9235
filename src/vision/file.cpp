// SPDX-License-Identifier: Apache-2.0
#include "vision/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tenon/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/counted.h"
#include "base/descriptor.h"

namespace tenon::vision {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw Error(Code::io, what, {.where = path, .why = std::strerror(errno)});
}

}  // namespace

std::vector<uint8_t> read_file(const std::string& path, int64_t limit) {
  // O_NONBLOCK keeps a named pipe from blocking the open; it has no effect on regular files.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail("cannot open the file", path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail("cannot read the file", path);
  if (!S_ISREG(status.st_mode)) throw Error(Code::io, "not a regular file", {.where = path});
  if (status.st_size > limit)
    throw Error(Code::resource, "the file is too large",
                {.where = path, .why = counted(status.st_size, "byte") + ", the limit is " + std::to_string(limit)});
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the file", path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace tenon::vision
