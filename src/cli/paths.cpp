// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <tenon/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "backends/kernel_pack_mark.h"
#include "base/entries.h"
#include "base/file.h"
#include "engine/engine.h"
#include "plan/timing_cache.h"
#include "vision/file.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using Place = Paths::Place;

void require_name(const std::string& option, const std::string& path) {
  if (path.empty()) throw Error(Code::usage, option + " needs a path", {.where = option, .why = "it is empty"});
}

[[noreturn]] void refuse(const std::string& what, const std::string& path, int error) {
  throw Error(Code::io, what, {.where = path, .why = std::strerror(error)});
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// The beginning of a file; nothing where it cannot be read.
std::string head_of(const std::string& path) {
  constexpr size_t bytes = 4096;
  std::string head(bytes, '\0');
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const ssize_t count = file ? ::read(file.get(), head.data(), head.size()) : 0;
  head.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return head;
}

bool begins_as_json(const std::string& head) {
  const size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string::npos && (head[first] == '{' || head[first] == '[');
}

std::vector<uint8_t> whole(const std::string& path) {
  constexpr int64_t largest = int64_t{1} << 30;
  return vision::read_file(path, largest);
}

bool is_timing_cache(const std::string& path) {
  const std::vector<uint8_t> bytes = whole(path);
  return plan::is_timing_cache(std::as_bytes(std::span(bytes)));
}

bool is_calibration_cache(const std::string& path) {
  const std::vector<uint8_t> bytes = whole(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.find("\"tenon_calibration") != text.npos;
}

/// What `path` should hold and does not; "" where it does, or is empty.
std::string other_kind(const std::string& path, const struct stat& status, FileKind kind) {
  if (kind == FileKind::any || !S_ISREG(status.st_mode) || status.st_size == 0) return "";
  const std::string head = head_of(path);
  if (head.empty()) return "a file that can be read";
  switch (kind) {
    case FileKind::engine: return is_engine_file(path) ? "" : "an engine";
    case FileKind::json:
      if (!begins_as_json(head)) return "JSON";
      return is_timing_cache(path) || is_calibration_cache(path) ? "a report: it is a cache" : "";
    case FileKind::timing_cache: return begins_as_json(head) && is_timing_cache(path) ? "" : "a timing cache";
    case FileKind::calibration_cache:
      if (head.starts_with("TRT-") || (begins_as_json(head) && is_calibration_cache(path))) return "";
      return "a calibration cache";
    case FileKind::calibration_table: return head.starts_with("TRT-") ? "" : "a calibration table";
    // ONNX has no mark: models begin with their IR version, field 1.
    case FileKind::model: return head[0] == '\x08' ? "" : "an ONNX model";
    case FileKind::kernel_pack: return head.starts_with(backends::kernel_pack_mark) ? "" : "a pack of kernels";
    case FileKind::any: break;
  }
  return "";
}

[[noreturn]] void collide(const Place& output, const Place& other) {
  throw Error(Code::usage, other.written ? "two outputs would go to the same file" : "an output would replace an input",
              {.where = output.option + " " + output.path,
               .why = fmt::format("it is the same file as {} {}", other.option, other.path),
               .hint = "give another path"});
}

/// A path as the one name of its file: without links in its folder.
std::string name_of(const std::string& path) {
  std::error_code fault;
  const fs::path folder = fs::weakly_canonical(folder_of(path), fault);
  return fault ? path : (folder / fs::path(path).filename()).string();
}

/// Throws Error(io) where a folder that is not there cannot be made in the nearest one that is.
void require_room(const std::string& path) {
  std::string above = folder_of(path);
  struct stat status;
  while (::stat(above.c_str(), &status) != 0 && errno == ENOENT && folder_of(above) != above) above = folder_of(above);
  if (::stat(above.c_str(), &status) != 0) refuse("cannot make the folder", path, errno);
  if (!S_ISDIR(status.st_mode)) refuse("cannot make the folder", path, ENOTDIR);
  if (::access(above.c_str(), W_OK) != 0) refuse("cannot make the folder", path, errno);
}

}  // namespace

const Place* Paths::same(const Place& place) const {
  if (const auto file = files_.find({place.device, place.inode}); place.inode != 0 && file != files_.end())
    return file->second;
  const auto named = names_.find(place.name);
  return place.name.empty() || named == names_.end() ? nullptr : named->second;
}

void Paths::keep(Place place) {
  places_.push_back(std::move(place));
  const Place& kept = places_.back();
  if (kept.inode != 0) files_.try_emplace({kept.device, kept.inode}, &kept);
  if (!kept.name.empty()) names_.try_emplace(kept.name, &kept);
}

Paths& paths() {
  static Paths all;
  return all;
}

void Paths::read(const std::string& option, const std::string& path, const std::string& noun) {
  require_name(option, path);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) refuse("cannot open " + noun, path, errno);
  Place place{option, path, "", status.st_dev, status.st_ino, false};
  if (const Place* const other = same(place); other && other->written) collide(*other, place);
  keep(std::move(place));
}

void Paths::read_folder(const std::string& option, const std::string& path) {
  read(option, path, "the folder");
  if (!is_folder(path))
    throw Error(Code::io, "the path is not a folder", {.where = path, .hint = option + " names a folder"});
}

void Paths::write(const std::string& option, const std::string& path, FileKind kind) {
  require_name(option, path);
  const std::string target = path == "-" ? path : written_path(path);
  Place place{option, path, "", 0, 0, true};
  struct stat status;
  const bool is_cache = kind == FileKind::timing_cache || kind == FileKind::calibration_cache;
  if (path == "-" && (is_cache || kind == FileKind::kernel_pack))
    throw Error(Code::usage, "this cannot go to the standard output",
                {.where = option, .hint = option + " names a file"});
  if (path == "-") {
    place.name = "the standard output";
  } else if (::stat(path.c_str(), &status) == 0) {
    place.device = status.st_dev, place.inode = status.st_ino;
    if (S_ISDIR(status.st_mode))
      throw Error(Code::io, "the path is a folder", {.where = path, .hint = "name a file in it"});
    if (!S_ISREG(status.st_mode) && is_cache)
      throw Error(Code::io, "the path is a device or a pipe", {.where = path, .hint = option + " names a file"});
    if (!S_ISREG(status.st_mode)) {
      streams_.push_back(open_stream(path));
      return;
    }
    place.name = name_of(target);
  } else if (errno == ENOENT) {
    if (::stat(folder_of(target).c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      throw Error(Code::io, "there is no such folder", {.where = folder_of(path)});
    place.name = name_of(target);
    if (const long longest = ::pathconf(folder_of(target).c_str(), _PC_NAME_MAX);
        longest > 0 && fs::path(target).filename().string().size() > static_cast<size_t>(longest))
      refuse("cannot write the file", path, ENAMETOOLONG);
  } else {
    refuse("cannot write the file", path, errno);
  }
  if (const Place* const other = same(place)) collide(place, *other);
  if (const std::string wanted = place.inode != 0 ? other_kind(path, status, kind) : ""; !wanted.empty())
    throw Error(Code::usage, "an output would replace a file of another kind",
                {.where = option + " " + path,
                 .why = "the file does not hold " + wanted,
                 .hint = "give another path, or remove the file"});
  if (path != "-" && ::access(folder_of(target).c_str(), W_OK) != 0) refuse("cannot write the file", path, errno);
  keep(std::move(place));
}

void Paths::fill(const std::string& option, const std::string& path) {
  require_name(option, path);
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode))
      throw Error(Code::io, "the path is not a folder", {.where = path, .hint = option + " names a folder"});
  } else if (errno != ENOENT) {
    refuse("cannot make the folder", path, errno);
  } else {
    require_room(path);
  }
}

void Paths::write_below(const std::string& option, const std::string& path) {
  if (is_there(folder_of(path)) || is_there(path)) return write(option, path);
  Place place{option, path, name_of(path), 0, 0, true};
  if (const Place* const other = same(place)) collide(place, *other);
  keep(std::move(place));
}

}  // namespace tenon::cli
