#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tenon/error.h"

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error, const std::string& hint = "") {
  throw Error(Code::io, what, {.where = path, .why = error ? std::strerror(error) : "", .hint = hint});
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe nobody writes to must not hang.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("cannot open the file", path, errno);
  return adopt(descriptor, path);
}

std::shared_ptr<const MappedFile> MappedFile::adopt(int descriptor, const std::string& path) {
  const Descriptor file{descriptor};
  struct stat status;
  if (::fstat(file.value, &status) != 0) fail("cannot read the file", path, errno);
  if (!S_ISREG(status.st_mode))
    fail(std::string("the path is ") + kind_of(status.st_mode), path, 0, "give a regular file");
  const size_t size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
    if (data == MAP_FAILED) fail("cannot map the file", path, errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size, path));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

namespace {

/// Where the bytes go: links are followed, so that a link stays one.
std::string target_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : path;
}

void write_all(int file, std::span<const std::byte> bytes, const auto& give_up) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) give_up(errno);
    done += static_cast<size_t>(count);
  }
}

}  // namespace

void write_atomically(const std::string& path, std::span<const std::byte> bytes) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) fail("the path is a folder", path, 0, "give a file");
    // A device or a pipe cannot be replaced.
    const Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.value < 0) fail("cannot write the file", path, errno);
    return write_all(file.value, bytes, [&](int error) { fail("cannot write the file", path, error); });
  }
  const std::string target = target_of(path);
  const std::string pattern = target + ".XXXXXX";
  std::vector<char> temporary(pattern.begin(), pattern.end());
  temporary.push_back('\0');
  Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.value < 0) fail("cannot write the file", path, errno);
  const auto give_up = [&](int error) {
    ::unlink(temporary.data());
    fail("cannot write the file", path, error,
         "nothing was changed; " + std::to_string(bytes.size()) + " bytes are needed");
  };
  write_all(file.value, bytes, give_up);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.value, 0666 & ~mask) != 0 || ::fsync(file.value) != 0) give_up(errno);
  if (::rename(temporary.data(), target.c_str()) != 0) give_up(errno);
  const Descriptor folder{::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.value >= 0) ::fsync(folder.value);
}

}  // namespace tenon
