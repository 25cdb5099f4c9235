// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/file.h"

namespace tenon {

/// A folder that is held open: whoever exchanges a part of its path afterwards does not lead elsewhere what is done
/// with the names in it. Links among these names are not followed.
class OpenFolder {
 public:
  /// Throws Error(io).
  static OpenFolder open(const std::string& path);
  /// One in which nobody but this user and root can put or exchange anything: it is this user's, and neither it nor a
  /// folder that leads to it may be written to by others, except where the sticky bit keeps them from exchanging it.
  /// What is missing of the path is made for this user alone. Throws Error(io) naming the folder that is not so.
  static OpenFolder open_private(const std::string& path);

  const std::string& path() const { return path_; }
  /// The names in it, sorted, but for "." and "..".
  std::vector<std::string> names() const;
  /// A regular file. Throws Error(io).
  std::shared_ptr<const MappedFile> map(const std::string& name) const;
  /// Replaces a file as NewFile does. Throws Error(io).
  void write(const std::string& name, std::span<const std::byte> bytes) const;
  /// An empty file to lock, made where there is none; no descriptor where that fails.
  Descriptor lock_file(const std::string& name) const;

 private:
  OpenFolder(Descriptor folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}
  Descriptor folder_;
  std::string path_;
};

/// Where this user's caches are: TENON_CACHE_DIR, tenon in XDG_CACHE_HOME, or .cache/tenon in HOME; the latter two only
/// where they are absolute. Empty where none is set.
std::string cache_path();

}  // namespace tenon
