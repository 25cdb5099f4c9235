// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/stat.h>

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/descriptor.h"

namespace tenon::cli {

/// What a file holds, as far as its first bytes tell.
enum class FileKind { any, engine, model, json, timing_cache, calibration_cache, calibration_table, kernel_pack };

/// The files and folders that the words of one command name, and the one place that decides which of them may be
/// written: an output is no input, no other output, and replaces only a file of its own kind. Files are told apart by
/// device and inode, through links. `option` is how messages name the word, as "--json".
class Paths {
 public:
  /// A file that is there, or the name of one that is not yet.
  struct Place {
    std::string option, path, name;
    dev_t device = 0;
    ino_t inode = 0;  // 0 where there is no such file yet
    bool written = false;
  };

  /// Throws Error(usage) for an empty path, Error(io) where there is nothing of this name.
  void read(const std::string& option, const std::string& path, const std::string& noun = "the file");
  /// The same of a path that must be a folder.
  void read_folder(const std::string& option, const std::string& path);
  /// Throws Error(usage) where the file may not be replaced, Error(io) where it cannot be written.
  void write(const std::string& option, const std::string& path, FileKind kind = FileKind::any);
  /// A folder to fill. Throws Error(usage) for an empty path, Error(io) where the path is something else, or the folder
  /// cannot be made.
  void fill(const std::string& option, const std::string& path);
  /// A file in such a folder, which need not be there yet. Throws as write() does.
  void write_below(const std::string& option, const std::string& path);

 private:
  const Place* same(const Place& place) const;
  void keep(Place place);

  std::deque<Place> places_;
  std::map<std::pair<dev_t, ino_t>, const Place*> files_;
  std::unordered_map<std::string, const Place*> names_;
  std::vector<Descriptor> streams_;  // pipes, held open so that their readers see no end
};

/// Those of this process's command.
Paths& paths();

}  // namespace tenon::cli
