// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_cache.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <tenon/error.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "plan/timing_key.h"

namespace tenon::plan {
namespace {

using nlohmann::json;
constexpr int version = 2;
constexpr int most_sources = 4;  // of one kernel: versions of it that are in use beside each other

std::string cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

json parsed(std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  return json::parse(begin, begin + bytes.size(), nullptr, false);
}

bool is_cache(const json& content) {
  if (!content.is_object() || !content.contains("version") || !content["version"].is_number_integer()) return false;
  const auto& entries = content.items();
  return std::all_of(entries.begin(), entries.end(),
                     [](const auto& entry) { return entry.key() == "version" || entry.value().is_object(); });
}

/// Nothing where there is no such file.
std::shared_ptr<const MappedFile> file_in(const OpenFolder& folder, const std::string& name) {
  try {
    return folder.map(name);
  } catch (const Error&) {
    return nullptr;
  }
}

/// The file's content; an empty object where there is none, or it is of another form. `later`: of a later one.
json content_of(const OpenFolder& folder, const std::string& name, bool* later = nullptr) {
  const auto file = file_in(folder, name);
  json content = file ? parsed(file->bytes()) : json();
  const bool known = is_cache(content);
  if (later) *later = known && content["version"] > version;
  return known && content["version"] == version ? content : json::object();
}

std::optional<uint64_t> hex_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// [[kernel, microseconds, source], …], the best first; nothing where it is of another form.
std::vector<Candidate> timed_in(const json& entry) {
  if (!entry.is_array()) return {};
  std::vector<Candidate> timed;
  for (const json& one : entry) {
    if (!one.is_array() || one.size() != 3 || !one[0].is_string() || !one[1].is_number() || !one[2].is_string())
      return {};
    const auto source = hex_number(one[2]);
    if (!source || *source == 0) return {};
    timed.push_back({one[0], one[1], *source});
  }
  return timed;
}

Records read(const OpenFolder& folder, const std::string& name, const std::string& machine) {
  Records records;
  const json content = content_of(folder, name);
  if (!content.contains(machine) || !content[machine].is_object()) return records;
  for (const auto& [key, entry] : content[machine].items()) {
    std::vector<Candidate> timed = timed_in(entry);
    if (timed.empty()) continue;
    Record& record = records[key];
    record = {timed[0].kernel, timed[0].microseconds, {timed.begin() + 1, timed.end()}, timed[0].source};
  }
  return records;
}

/// What was measured here, undisturbed.
std::vector<Candidate> sound_in(const Record& record) {
  std::vector<Candidate> timed = timed_of(record);
  std::erase_if(timed, [](const Candidate& candidate) { return candidate.source == 0; });
  return timed;
}

/// What was measured, and behind it what the file knows of other kernels and other versions of these; null where that
/// is nothing new.
json merged(const Record& record, const json& entry) {
  std::vector<Candidate> timed = sound_in(record);
  const std::vector<Candidate> known = timed_in(entry);
  const auto among = [](const std::vector<Candidate>& list, const Candidate& candidate) {
    return std::any_of(list.begin(), list.end(), [&](const Candidate& other) {
      return other.kernel == candidate.kernel && other.source == candidate.source;
    });
  };
  if (std::all_of(timed.begin(), timed.end(), [&](const Candidate& one) { return among(known, one); })) return nullptr;
  for (const Candidate& candidate : known) {
    const auto versions = std::count_if(timed.begin(), timed.end(),
                                        [&](const Candidate& one) { return one.kernel == candidate.kernel; });
    if (!among(timed, candidate) && versions < most_sources) timed.push_back(candidate);
  }
  json list = json::array();
  for (const Candidate& candidate : timed)
    list.push_back(json::array({candidate.kernel, candidate.microseconds, fmt::format("{:016x}", candidate.source)}));
  return list;
}

}  // namespace

bool is_timing_cache(std::span<const std::byte> content) { return content.empty() || is_cache(parsed(content)); }

std::string processor_of(std::string_view cpuinfo) {
  constexpr std::string_view name = "model name", blanks = " \t";
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(line.size() + 1, cpuinfo.size()));
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string_view::npos) continue;
    const size_t begin = line.find_first_not_of(blanks, colon + 1);
    if (begin != std::string_view::npos) return std::string(line.substr(begin));
  }
  return "unknown";
}

TimingCache::TimingCache(const std::string& path, const std::string& isa)
    : machine_(processor_of(cpuinfo()) + " " + isa) {
  if (path == "-" || (path.empty() && cache_path().empty())) return;
  try {
    open(path);
    const auto file = path.empty() ? nullptr : file_in(*folder_, name_);
    if (file && !is_timing_cache(file->bytes()))
      throw Error(Code::usage, "an output would replace a file of another kind",
                  {.where = path,
                   .why = "the file does not hold a timing cache",
                   .hint = "give another path, or remove the file"});
    bool later = false;
    content_of(*folder_, name_, &later);
    if (later)
      throw Error(Code::io, "the timing cache cannot be used",
                  {.where = path.empty() ? folder_->path() + "/" + name_ : path,
                   .why = "a later version of Tenon made it"});
    records_ = read(*folder_, name_, machine_);
  } catch (const Error& error) {
    if (error.code() == Code::usage) throw;
    why_not_ = error.where() + ": " + error.why();
    folder_.reset();
  }
}

void TimingCache::open(const std::string& path) {
  if (path.empty()) {
    folder_ = OpenFolder::open_private(cache_path());
    name_ = "timing.json";
    return;
  }
  const size_t slash = path.rfind('/');
  folder_ = OpenFolder::open(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  name_ = path.substr(slash + 1);
}

void TimingCache::add(const Records& records) {
  for (const auto& [key, record] : records)
    if (std::vector<Candidate> sound = sound_in(record); !sound.empty())
      records_[key] = joined(records_[key], record_of(std::move(sound)));
  if (!folder_) return;
  const Descriptor lock = folder_->lock_file(name_ + ".lock");
  if (!lock) return;
  ::flock(lock.get(), LOCK_EX);
  bool later = false;
  json content = content_of(*folder_, name_, &later);
  if (later) return;
  content["version"] = version;
  json& machine = content[machine_];
  if (!machine.is_object()) machine = json::object();
  for (const auto& [key, record] : records) {
    const auto entry = machine.find(key);
    if (json list = merged(record, entry == machine.end() ? json() : *entry); !list.is_null())
      machine[key] = std::move(list);
  }
  // Attributes of a model may hold any bytes, JSON may not.
  const std::string text = content.dump(1, ' ', false, json::error_handler_t::replace);
  try {
    folder_->write(name_, std::as_bytes(std::span(text)));
  } catch (const Error&) {
    // An unwritable cache costs the next build its measurements and nothing else.
  }
}

}  // namespace tenon::plan
