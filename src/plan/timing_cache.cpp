#include "plan/timing_cache.h"

#include <tenon/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/knobs.h"

namespace tenon::plan {
namespace {

using nlohmann::json;
constexpr int version = 1;

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string default_path() {
  namespace fs = std::filesystem;
  fs::path folder;
  if (const auto own = knobs::value(knobs::cache_dir)) folder = *own;
  else if (const auto xdg = knobs::value(knobs::xdg_cache_home)) folder = fs::path(*xdg) / "tenon";
  else if (const auto home = knobs::value(knobs::home)) folder = fs::path(*home) / ".cache" / "tenon";
  else return "-";
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? "-" : (folder / "timing.json").string();
}

/// The file's content; an empty object where there is none that this version wrote.
json content_of(const std::string& path) {
  json content;
  try {
    const auto file = MappedFile::open(path);
    const auto bytes = file->bytes();
    content = json::parse(reinterpret_cast<const char*>(bytes.data()),
                          reinterpret_cast<const char*>(bytes.data()) + bytes.size(), nullptr, false);
  } catch (const Error&) {
    return json::object();
  }
  const bool known = content.is_object() && content.contains("version") && content["version"].is_number_integer() &&
                     content["version"] == version;
  return known ? content : json::object();
}

/// [kernel, microseconds, [rival, microseconds, …]]; earlier versions wrote no rivals and are measured again.
bool is_whole(const json& entry) {
  return entry.is_array() && entry.size() == 3 && entry[0].is_string() && entry[1].is_number() && entry[2].is_array();
}

std::vector<Rival> rivals_of(const json& list) {
  std::vector<Rival> rivals;
  for (size_t at = 0; at + 1 < list.size(); at += 2)
    if (list[at].is_string() && list[at + 1].is_number()) rivals.push_back({list[at], list[at + 1]});
  return rivals;
}

Records read(const std::string& path, const std::string& machine) {
  Records records;
  const json content = content_of(path);
  if (!content.contains(machine) || !content[machine].is_object()) return records;
  for (const auto& [key, entry] : content[machine].items())
    if (is_whole(entry)) records[key] = {entry[0], entry[1], rivals_of(entry[2])};
  return records;
}

}  // namespace

TimingCache::TimingCache(const std::string& path, const std::string& isa)
    : path_(path.empty() ? default_path() : path), machine_(processor() + " " + isa) {
  if (path_ != "-") records_ = read(path_, machine_);
}

void TimingCache::add(const Records& records) {
  if (path_ == "-") return;
  const int lock = ::open((path_ + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (lock < 0) return;
  ::flock(lock, LOCK_EX);
  json content = content_of(path_);
  content["version"] = version;
  json& machine = content[machine_];
  if (!machine.is_object()) machine = json::object();
  for (const auto& [key, record] : records)
    if (!machine.contains(key) || !is_whole(machine[key])) {
      json rivals = json::array();
      for (const Rival& rival : record.rivals) {
        rivals.push_back(rival.kernel);
        rivals.push_back(rival.microseconds);
      }
      machine[key] = json::array({record.kernel, record.microseconds, rivals});
    }
  // Attributes of a model may hold any bytes, JSON may not.
  const std::string text = content.dump(1, ' ', false, json::error_handler_t::replace);
  try {
    write_atomically(path_, std::as_bytes(std::span(text)));
  } catch (const Error&) {
    // An unwritable cache costs the next build its measurements and nothing else.
  }
  ::close(lock);
}

}  // namespace tenon::plan
