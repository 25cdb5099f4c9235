// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/stat.h>
#include <tenon/buffer.h>
#include <tenon/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/lost_pages.h"

namespace tenon {

/// A regular file's bytes for reading. Shared: tensors that refer to it keep it alive.
///
/// Small files are read into memory of their own. Larger ones stay mapped, as a copy takes longer than a load may (100
/// MB: 60 ms, mapped and hashed 25 ms) and would hold weights twice. What is read once goes through read() and hash(),
/// which throw where another process has cut the file off. Bytes that are used where they are become zeros then
/// (lost_pages.h): whoever has used them asks check() or check_lost() before the result goes on.
class MappedFile {
 public:
  /// Files of at most this many bytes are copied.
  static constexpr size_t largest_copied = size_t{16} << 20;

  /// Throws Error(io) when the path is missing, unreadable, or no regular file (folder, pipe, device).
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// Takes an already opened file; `path` is used in messages.
  static std::shared_ptr<const MappedFile> adopt(Descriptor file, const std::string& path);
  /// Memory with an owner in a file's place; it must not change meanwhile.
  static std::shared_ptr<const MappedFile> view(Buffer bytes, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }
  /// Whether other processes reach the bytes.
  bool is_shared() const { return static_cast<bool>(file_); }
  /// Copies the bytes from `offset` on. Throws Error(io) where the file was cut off meanwhile.
  void read(size_t offset, std::span<std::byte> to) const;
  /// hash64 of a part. Throws Error(io) where the file was cut off meanwhile.
  uint64_t hash(size_t offset, size_t bytes) const;
  /// Throws Error(io) where another process has written to the file since it was opened.
  void check() const;
  /// Throws Error(io) where bytes were used that the file did not have any more.
  void check_lost() const;

 private:
  MappedFile(std::string path) : path_(std::move(path)) {}
  void* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
  std::shared_ptr<const void> keep_;  // of memory that is not this one's
  bool is_view_ = false;
  Descriptor file_;  // of a mapped one
  GuardedPages* guarded_ = nullptr;
  struct stat opened_ {};
};

/// Files that something is made of.
using Files = std::vector<std::shared_ptr<const MappedFile>>;
void check(const Files& files);

/// What `work` makes of the files. Throws Error(io), whatever came of it, where one of them was written to meanwhile.
template <class Work>
auto of_whole(const Files& files, const Work& work) {
  try {
    auto made = work();
    check(files);
    return made;
  } catch (const Error&) {
    check(files);
    throw;
  }
}

/// A file that gets its name when it is whole: until commit() readers see the old file, afterwards all of the new one.
/// It begins under another name in the same folder, with the mode that any new file gets.
class NewFile {
 public:
  /// Throws Error(io). A link that this user or root made is followed, so that it stays one; a link of another user is
  /// refused. A device, or a pipe that a program reads from, is written to at once, as it cannot be replaced.
  explicit NewFile(const std::string& path);
  /// In a folder that is held open; `path` is used in messages.
  NewFile(int folder, const std::string& name, const std::string& path);
  /// Removes what was not committed.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Where the bytes are until then, for libraries that write files by name.
  const std::string& temporary() const { return temporary_; }
  void write(std::span<const std::byte> bytes);
  /// Syncs the bytes, gives them the name and syncs the folder. Throws Error(io); nothing was changed then.
  void commit();

 private:
  void begin();
  [[noreturn]] void give_up(int error);
  Descriptor folder_, file_;
  std::string path_, name_, temporary_name_, temporary_;
  size_t bytes_ = 0;
  bool is_stream_ = false;  // a device or a pipe
};

/// The path that a file written as `path` gets: links are followed. Throws Error(io) for a link of another user, and
/// for links that lead in a circle.
std::string written_path(const std::string& path);

/// Opens a device or a pipe to write to. Throws Error(io), also where no program reads from the pipe.
Descriptor open_stream(const std::string& path);

/// Writes a file as NewFile does. Throws Error(io).
void write_atomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tenon
