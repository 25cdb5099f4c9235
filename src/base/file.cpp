// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/counted.h"
#include "base/hash.h"
#include "base/pages.h"
#include "tenon/error.h"

namespace tenon {
namespace {

constexpr int most_links = 40;  // that lead to a file, as the kernel has it
constexpr size_t piece = size_t{256} << 10;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error, const std::string& hint = "") {
  throw Error(Code::io, what, {.where = path, .why = error ? std::strerror(error) : "", .hint = hint});
}

[[noreturn]] void cut_off(const std::string& path) {
  throw Error(Code::io, "the file was changed while it was in use",
              {.where = path, .hint = "copy it again, and replace files in use by renaming, not by writing to them"});
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void read_at(int file, size_t offset, std::span<std::byte> to, const std::string& path) {
  while (!to.empty()) {
    const ssize_t count = ::pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot read the file", path, errno);
    if (count == 0) cut_off(path);
    offset += static_cast<size_t>(count);
    to = to.subspan(static_cast<size_t>(count));
  }
}

/// The number of an error; 0: all is written.
int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return 0;
}

/// Six letters that nobody can guess.
std::string random_letters() {
  std::array<uint8_t, 6> numbers{};
  if (::getrandom(numbers.data(), numbers.size(), 0) != static_cast<ssize_t>(numbers.size())) return "000000";
  std::string letters;
  for (const uint8_t number : numbers) letters += "abcdefghijklmnopqrstuvwxyz012345"[number % 32];
  return letters;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe nobody writes to must not hang.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail("cannot open the file", path, errno);
  return adopt(std::move(file), path);
}

std::shared_ptr<const MappedFile> MappedFile::adopt(Descriptor file, const std::string& path) {
  std::shared_ptr<MappedFile> mapped(new MappedFile(path));
  struct stat& status = mapped->opened_;
  if (::fstat(file.get(), &status) != 0) fail("cannot read the file", path, errno);
  if (!S_ISREG(status.st_mode))
    fail(std::string("the path is ") + kind_of(status.st_mode), path, 0, "give a regular file");
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return mapped;
  const bool copied = size <= largest_copied;
  void* data = copied ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("cannot map the file", path, errno);
  mapped->data_ = data;
  mapped->size_ = size;
  if (copied) {
    read_at(file.get(), 0, {static_cast<std::byte*>(data), size}, path);
    ::mprotect(data, size, PROT_READ);
  } else {
    mapped->file_ = std::move(file);
    note_pages(data, size);
    mapped->guarded_ = &guard_pages(data, size);
  }
  return mapped;
}

std::shared_ptr<const MappedFile> MappedFile::view(Buffer bytes, const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  file->data_ = const_cast<std::byte*>(bytes.data());
  file->size_ = bytes.size();
  file->keep_ = bytes.keep();
  file->is_view_ = true;
  return file;
}

MappedFile::~MappedFile() {
  if (!data_ || is_view_) return;
  if (guarded_) forget_pages(data_), forget_pages(*guarded_);
  ::munmap(data_, size_);
}

void MappedFile::read(size_t offset, std::span<std::byte> to) const {
  if (is_shared()) read_at(file_.get(), offset, to, path_);
  else std::copy_n(bytes().begin() + static_cast<ptrdiff_t>(offset), to.size(), to.begin());
}

uint64_t MappedFile::hash(size_t offset, size_t size) const {
  if (!is_shared()) return hash64(bytes().subspan(offset, size));
  Hasher hasher;
  std::vector<std::byte> part(std::min(size, piece));
  for (size_t done = 0; done < size;) {
    const std::span<std::byte> next(part.data(), std::min(part.size(), size - done));
    read_at(file_.get(), offset + done, next, path_);
    hasher.add(next);
    done += next.size();
  }
  return hasher.value();
}

void MappedFile::check() const {
  if (!is_shared()) return;
  struct stat now;
  const auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  if (::fstat(file_.get(), &now) != 0 || now.st_size != opened_.st_size || !same(now.st_mtim, opened_.st_mtim))
    cut_off(path_);
  check_lost();
}

void MappedFile::check_lost() const {
  if (guarded_ && guarded_->lost.load()) cut_off(path_);
}

void check(const Files& files) {
  for (const auto& file : files) file->check();
}

std::string written_path(const std::string& given) {
  std::string path = given;
  for (int links = 0; links < most_links; ++links) {
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
    // Another user could lead the bytes anywhere.
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
      fail("the path is a link that another user made", path, 0, "give another path, or remove the link");
    std::array<char, PATH_MAX> text;
    const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
    if (size <= 0 || static_cast<size_t>(size) == text.size())
      fail("cannot write the file", path, size < 0 ? errno : ENAMETOOLONG);
    const std::string target(text.data(), static_cast<size_t>(size));
    path = target[0] == '/' ? target : folder_of(path) + "/" + target;
  }
  fail("cannot write the file", given, ELOOP);
}

Descriptor open_stream(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody reads from must not hang.
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file && errno == ENXIO && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode))
    throw Error(Code::io, "cannot write the file",
                {.where = path, .why = "no program reads from this pipe", .hint = "start the reader first"});
  if (!file || ::fstat(file.get(), &status) != 0) fail("cannot write the file", path, errno);
  if (S_ISREG(status.st_mode)) fail("the path was exchanged while it was opened", path, 0);
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

NewFile::NewFile(const std::string& path) : path_(path) {
  const std::string target = written_path(path);
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) fail("the path is a folder", path, 0, "name a file in it");
    is_stream_ = true;
    file_ = open_stream(path);
    temporary_ = path;
    return;
  }
  const std::string folder = folder_of(target);
  folder_ = Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_) fail("cannot write the file", path, errno);
  name_ = name_of(target);
  begin();
  temporary_ = folder + "/" + temporary_name_;
}

NewFile::NewFile(int folder, const std::string& name, const std::string& path)
    : folder_(::fcntl(folder, F_DUPFD_CLOEXEC, 0)), path_(path), name_(name) {
  if (!folder_) fail("cannot write the file", path, errno);
  struct stat status;
  const bool is_there = ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
    fail(std::string("the path is ") + kind_of(status.st_mode), path, 0, "give a file");
  begin();
  temporary_ = folder_of(path) + "/" + temporary_name_;
}

void NewFile::begin() {
  constexpr int most_tries = 100;
  constexpr size_t longest_part = 200;  // of a name, which may be 255 bytes
  for (int tries = 0; !file_ && tries < most_tries; ++tries) {
    temporary_name_ = name_.substr(0, longest_part) + "." + random_letters();
    file_ = Descriptor(
        ::openat(folder_.get(), temporary_name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_) fail("cannot write the file", path_, errno);
}

NewFile::~NewFile() {
  if (file_ && !is_stream_) ::unlinkat(folder_.get(), temporary_name_.c_str(), 0);
}

void NewFile::give_up(int error) {
  fail("cannot write the file", path_, error,
       is_stream_ ? ""
       : bytes_
           ? "nothing was changed; at least " + counted(bytes_, "byte") + (bytes_ == 1 ? " is needed" : " are needed")
           : "nothing was changed");
}

void NewFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  if (const int error = write_all(file_.get(), bytes)) give_up(error);
}

void NewFile::commit() {
  if (is_stream_) {
    file_ = Descriptor();
    return;
  }
  if (::fsync(file_.get()) != 0) give_up(errno);
  if (::renameat(folder_.get(), temporary_name_.c_str(), folder_.get(), name_.c_str()) != 0) give_up(errno);
  file_ = Descriptor();
  const Descriptor readable(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable) ::fsync(readable.get());
}

void write_atomically(const std::string& path, std::span<const std::byte> bytes) {
  NewFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace tenon
