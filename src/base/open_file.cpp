// SPDX-License-Identifier: Apache-2.0
#include "base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tenon/error.h>
#include <tenon/tensor.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tenon {
namespace {

constexpr int64_t first_bytes = 1 << 20;

[[noreturn]] void fail(const std::string& name, int error) {
  throw Error(Code::io, "cannot read the open file", {.where = name, .why = std::strerror(error)});
}

Buffer read_to_end(int descriptor, const std::string& name) {
  Tensor memory(DType::u8, {first_bytes});
  size_t size = 0;
  for (;;) {
    if (size == memory.bytes()) {
      Tensor larger(DType::u8, {2 * memory.elements()});
      std::memcpy(larger.data(), memory.data(), size);
      memory = std::move(larger);
    }
    const ssize_t got = ::read(descriptor, memory.data<std::byte>() + size, memory.bytes() - size);
    if (got == 0) break;
    if (got > 0) size += static_cast<size_t>(got);
    else if (errno != EINTR) fail(name, errno);
  }
  const void* data = memory.data();
  return {data, size, std::make_shared<Tensor>(std::move(memory))};
}

}  // namespace

std::shared_ptr<const MappedFile> open_file(int descriptor, const std::string& name) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) fail(name, errno);
  if (!S_ISREG(status.st_mode)) return MappedFile::view(read_to_end(descriptor, name), name);
  Descriptor own(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!own) fail(name, errno);
  return MappedFile::adopt(std::move(own), name);
}

}  // namespace tenon
