// SPDX-License-Identifier: Apache-2.0
#include "cli/source.h"

#include <fmt/format.h>
#include <glob.h>
#include <tenon/error.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <string_view>

#include "base/entries.h"
#include "cli/frames.h"
#include "cli/notes.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "vision/decode.h"
#include "vision/file.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Each = std::function<void(SourceImage&)>;
constexpr int64_t largest_list = 64 << 20;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool is_source_file(const std::string& path) {
  return is_regular_file(path) && (vision::is_image_name(path) || is_video_file(path));
}

[[noreturn]] void refuse_empty(const std::string& what, const std::string& where) {
  throw Error(Code::io, what, {.where = where, .hint = std::string("images are ") + vision::image_endings + " files"});
}

/// Paths of a pattern as the shell's, {a,b} and ~ included, and what of it could not be read.
std::vector<std::string> globbed(const std::string& pattern, std::string& unread) {
  struct Matches : glob_t {
    Matches() : glob_t() {}
    ~Matches() { globfree(this); }
  } found;
  static std::string fault;
  fault.clear();
  const auto note = [](const char* folder, int error) {
    if (error == EACCES || error == EIO) fault = std::string(folder) + ": " + std::strerror(error);
    return 0;
  };
  if (::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, note, &found) == GLOB_NOSPACE) throw std::bad_alloc();
  if (!fault.empty()) unread = fault;
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

/// Folders of a pattern and all below them, links left out; "" is here.
std::vector<std::string> folders_below(const std::string& pattern, std::string& unread) {
  std::vector<std::string> folders = pattern.empty() ? std::vector<std::string>{""} : globbed(pattern, unread);
  for (size_t at = 0; at < folders.size(); ++at) {
    if (!folders[at].empty() && !folders[at].ends_with('/')) folders[at] += '/';
    std::error_code fault;
    fs::directory_iterator entries(folders[at].empty() ? "." : folders[at], fault), end;
    for (; !fault && entries != end; entries.increment(fault))
      if (entries->is_directory(fault) && !entries->is_symlink(fault))
        folders.push_back(folders[at] + entries->path().filename().string());
  }
  return folders;
}

/// A path in which no sign has a meaning for glob.
std::string literal(const std::string& path) {
  std::string safe;
  for (const char sign : path) {
    if (std::string_view("*?[]{}~\\").find(sign) != std::string_view::npos) safe += '\\';
    safe += sign;
  }
  return safe;
}

/// Images and videos of a pattern, by name; "**/" stands for folders of any depth.
std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> files;
  std::string unread;
  const size_t stars = pattern.find("**/");
  const bool deep = stars != std::string::npos && (stars == 0 || pattern[stars - 1] == '/');
  if (!deep) files = globbed(pattern, unread);
  else
    for (const std::string& folder : folders_below(pattern.substr(0, stars), unread))
      for (std::string& file : globbed(literal(folder) + pattern.substr(stars + 3), unread))
        files.push_back(std::move(file));
  std::erase_if(files, [](const std::string& path) { return !is_source_file(path); });
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (!files.empty()) return files;
  if (!unread.empty()) throw Error(Code::io, "cannot read the folder", {.where = pattern, .why = unread});
  refuse_empty("no image or video matches the pattern", pattern);
}

/// Images and videos in a folder, by name, not below it.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files = entries_of(folder);
  std::erase_if(files, [](const std::string& path) { return !is_source_file(path); });
  if (files.empty()) refuse_empty("the folder has no images or videos", folder);
  return files;
}

/// The paths in a list, from here or from beside the list. Lines that begin with # are comments.
std::vector<std::string> lines_of(const std::string& list) {
  const std::vector<uint8_t> bytes = vision::read_file(list, largest_list);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf", blanks = " \t\r";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (text.find('\0') != text.npos)
    throw Error(Code::io, "the list is not text", {.where = list, .hint = "save it as UTF-8, a path in each line"});
  std::vector<std::string> files;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view whole = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = std::min(whole.find_first_not_of(blanks), whole.size());
    const std::string line(whole.substr(first, whole.find_last_not_of(blanks) + 1 - first));
    if (line.empty() || (line[0] == '#' && !is_there(line))) continue;
    const std::string beside = (fs::path(list).parent_path() / line).string();
    files.push_back(!is_there(line) && is_there(beside) ? beside : line);
  }
  if (files.empty())
    throw Error(Code::io, "the list has no images", {.where = list, .hint = "a list has a path in each line"});
  return files;
}

Unread unread(const std::string& path, const Error& error) {
  return {path, std::string(error.what()) + (error.why().empty() ? "" : ": " + error.why())};
}

/// Of a video that ends before its time or has damaged parts; what came before that counts.
void for_each_frame(const std::string& word, bool is_stream, const Each& each, std::vector<Unread>& faults) {
  const std::string path = is_stream ? vision::shown_address(word) : word;
  const std::unique_ptr<Frames> reader = is_stream ? Frames::of_stream(word) : std::make_unique<Frames>(word);
  Frames& frames = *reader;
  SourceImage source_image{.path = path, .frame = 0, .fps = frames.fps()};
  const auto next = [&] {
    try {
      const Clock::time_point begin = Clock::now();
      const bool more = frames.next(source_image.image);
      source_image.decode_ms = milliseconds_since(begin);
      return more;
    } catch (const Error& error) {
      if (source_image.frame == 0) throw;
      return false;
    }
  };
  // The callee may take the image with its name.
  for (int64_t frame = 0; interrupted() == 0 && next(); source_image.frame = ++frame, source_image.path = path)
    each(source_image);
  const std::string fault = frames.fault();
  if (fault.empty() || (is_stream && interrupted() != 0)) return;
  const Error error(
      Code::io, is_stream ? "the stream broke off" : "the video is damaged",
      {.where = path, .why = fault + fmt::format("; {} could be read", counted(source_image.frame, "frame"))});
  if (source_image.frame == 0) throw error;
  tell(error);
  faults.push_back(unread(path, error));
}

void read_image(const std::string& path, SourceImage& source_image, const Each& each) {
  source_image.path = path;
  const Clock::time_point begin = Clock::now();
  source_image.image = vision::decode_image(path);
  source_image.decode_ms = milliseconds_since(begin);
  each(source_image);
}

}  // namespace

bool is_pattern(const std::string& word) { return word.find_first_of("*?[{") != std::string::npos; }

bool is_video_file(const std::string& path) { return vision::is_video_name(path) && !is_folder(path); }

Source::Source(const std::string& word, const std::vector<std::string>& more) {
  if (!is_there(word) && vision::is_stream_address(word) && more.empty()) {
    is_stream_ = true;
    files_ = {word};
    return;
  }
  add(word);
  for (const std::string& each : more) add(each);
  if (files_.size() == 1) paths().read("--source", files_[0], "the source");
}

void Source::add(const std::string& word) {
  const bool there = is_there(word);
  if (word.ends_with(".onnx") || word.ends_with(".tenon"))
    throw Error(Code::usage, "a model stands among the images",
                {.where = word, .hint = "name the model before --source, or write the pattern in quotes"});
  if (!there && vision::is_stream_address(word))
    throw Error(Code::usage, "a stream or camera is a source alone", {.where = vision::shown_address(word)});
  if (word.ends_with(".txt") && is_regular_file(word)) {
    // Cameras and addresses are for the command's own words alone.
    for (const std::string& line : lines_of(word)) add_files(line);
  } else {
    add_files(word);
  }
}

void Source::add_files(const std::string& word) {
  std::vector<std::string> found{word};
  if (is_folder(word)) found = files_in(word);
  else if (!is_there(word) && is_pattern(word)) found = matches(word);
  files_.insert(files_.end(), found.begin(), found.end());
}

bool Source::is_video() const { return is_stream_ || std::all_of(files_.begin(), files_.end(), is_video_file); }

int64_t Source::items() const {
  if (is_stream_) return 0;
  int64_t count = 0;
  try {
    for (const std::string& file : files_) {
      const int64_t frames = is_video_file(file) ? vision::VideoReader(file).frames() : 1;
      if (frames <= 0) return 0;
      count += frames;
    }
  } catch (const Error&) {
    return 0;  // told when its turn comes
  }
  return count;
}

std::vector<Unread> Source::for_each(const Each& each) const {
  SourceImage source_image;
  std::vector<Unread> faults;
  for (const std::string& file : files_) {
    if (interrupted() != 0) break;
    // What `each` throws is no fault of the file.
    bool reading = true;
    const Each seen = [&](SourceImage& one) {
      reading = false;
      each(one);
      reading = true;
    };
    try {
      if (is_stream_ || is_video_file(file)) for_each_frame(file, is_stream_, seen, faults);
      else read_image(file, source_image, seen);
    } catch (const Error& error) {
      if (files_.size() == 1 || !reading) throw;
      faults.push_back(unread(file, error));
      tell(error);
    }
  }
  return faults;
}

}  // namespace tenon::cli
