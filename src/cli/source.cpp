// SPDX-License-Identifier: Apache-2.0
#include "cli/source.h"

#include <fmt/format.h>
#include <glob.h>
#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "base/entries.h"
#include "cli/frames.h"
#include "cli/notes.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "vision/decode.h"
#include "vision/file.h"
#include "vision/sources.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Each = std::function<void(SourceImage&)>;
constexpr int64_t largest_list = 64 << 20;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Images and videos of a pattern, by name.
std::vector<std::string> matches(const std::string& pattern) {
  struct Matches : glob_t {
    Matches() : glob_t() {}
    ~Matches() { globfree(this); }
  } found;
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  if (status != 0 && status != GLOB_NOMATCH) throw Error(Code::io, "cannot read the folder", {.where = pattern});
  std::vector<std::string> files;
  for (size_t at = 0; at < found.gl_pathc; ++at) {
    const std::string path = found.gl_pathv[at];
    if (is_regular_file(path) && (vision::is_image_name(path) || is_video_file(path))) files.push_back(path);
  }
  if (files.empty())
    throw Error(Code::io, "no image or video matches the pattern",
                {.where = pattern, .hint = std::string("images are ") + vision::image_endings + " files"});
  return files;
}

/// The paths in a list. Cameras and addresses are for the command's own words alone.
std::vector<std::string> lines_of(const std::string& list) {
  const std::vector<uint8_t> bytes = vision::read_file(list, largest_list);
  std::vector<std::string> files;
  std::string line;
  const auto finish = [&] {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) return;
    const std::string beside = (fs::path(list).parent_path() / line).string();
    files.push_back(!is_there(line) && is_there(beside) ? beside : line);
    line.clear();
  };
  for (const uint8_t byte : bytes) byte == '\n' ? finish() : line.push_back(static_cast<char>(byte));
  finish();
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

bool is_pattern(const std::string& word) { return word.find_first_of("*?[") != std::string::npos; }

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
  std::vector<std::string> found{word};
  if (there && is_folder(word)) found = vision::images_in(word);
  else if (!there && is_pattern(word)) found = matches(word);
  else if (!there && vision::is_stream_address(word))
    throw Error(Code::usage, "a stream or camera is a source alone", {.where = vision::shown_address(word)});
  else if (word.ends_with(".txt") && is_regular_file(word)) found = lines_of(word);
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
