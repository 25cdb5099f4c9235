#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tenon {

/// A regular file's bytes, mapped privately for reading. Shared: tensors that refer to it keep it alive.
class MappedFile {
 public:
  /// Throws Error(io) when the path is missing, unreadable, or no regular file (folder, pipe, device).
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// Maps an already opened file and closes it; `path` is used in messages.
  static std::shared_ptr<const MappedFile> adopt(int descriptor, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(void* data, size_t size, std::string path) : data_(data), size_(size), path_(std::move(path)) {}
  void* data_;
  size_t size_;
  std::string path_;
};

/// Writes a temporary file in the same folder, syncs it and renames it over `path`: afterwards `path` holds the old
/// bytes or all the new ones. The temporary file is removed on failure. Links are followed; a device or a pipe is
/// written to. Throws Error(io).
void write_atomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tenon
