// SPDX-License-Identifier: Apache-2.0
#include "vision/labels.h"

#include <tenon/error.h>

#include <algorithm>
#include <charconv>

#include "vision/file.h"

namespace tenon::vision {
namespace {

constexpr size_t max_labels = 100000;
constexpr int64_t max_label_file = 16 << 20;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool take(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse(std::string("expected ") + wanted);
  }
  size_t number() {
    skip_blanks();
    size_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc() || value >= max_labels) refuse("expected a class number below 100000");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : 0;
    if (quote != '\'' && quote != '"') refuse("expected a name in quotes");
    std::string value;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return value;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_];
    }
    refuse("a name has no closing quote");
  }
  void end() {
    skip_blanks();
    if (at_ != text_.size()) refuse("text after the end");
  }
  [[noreturn]] void refuse(std::string why) const {
    throw Error(Code::invalid_model, "cannot read the model's class names",
                {.where = "byte " + std::to_string(at_) + " of the metadata entry \"names\"",
                 .why = std::move(why),
                 .hint = "give a labels file, one name a line"});
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

/// Of lines with tabs the last column is the name: by number where the first one is a number, else in order.
std::vector<std::string> without_columns(std::vector<std::string> lines) {
  const auto has_tab = [](const std::string& line) { return line.find('\t') != std::string::npos; };
  if (lines.empty() || !std::all_of(lines.begin(), lines.end(), has_tab)) return lines;
  std::vector<std::string> names(lines.size());
  for (size_t line = 0; line < lines.size(); ++line) {
    const std::string first = lines[line].substr(0, lines[line].find('\t'));
    size_t number = line;
    const auto [end, status] = std::from_chars(first.data(), first.data() + first.size(), number);
    const bool numbered = status == std::errc() && end == first.data() + first.size() && number < max_labels;
    if (!numbered) number = line;
    if (number >= names.size()) names.resize(number + 1);
    names[number] = lines[line].substr(lines[line].rfind('\t') + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> labels_from_metadata(std::string_view text) {
  Scanner scan(text);
  std::vector<std::string> labels;
  const bool list = scan.take('[');
  if (!list) scan.expect('{');
  const char close = list ? ']' : '}';
  while (!scan.take(close)) {
    size_t id = labels.size();
    if (!list) {
      const bool quoted = scan.take('\'') || scan.take('"');
      id = scan.number();
      if (quoted && !scan.take('\'')) scan.expect('"');
      scan.expect(':');
    }
    if (id >= max_labels) scan.refuse("too many names");
    if (id >= labels.size()) labels.resize(id + 1);
    labels[id] = scan.quoted();
    if (scan.take(',')) continue;
    scan.expect(close);
    break;
  }
  scan.end();
  return labels;
}

std::vector<std::string> labels_from_file(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, max_label_file);
  std::vector<std::string> labels;
  std::string line;
  const auto finish = [&] {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    labels.push_back(std::move(line));
    line.clear();
    if (labels.size() > max_labels) throw Error(Code::io, "too many labels", {.where = path});
  };
  for (const uint8_t byte : bytes) byte == '\n' ? finish() : line.push_back(static_cast<char>(byte));
  finish();
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  return without_columns(std::move(labels));
}

std::string label(const std::vector<std::string>& labels, int class_id) {
  const auto at = static_cast<size_t>(class_id);
  return class_id >= 0 && at < labels.size() && !labels[at].empty() ? labels[at] : std::to_string(class_id);
}

}  // namespace tenon::vision
