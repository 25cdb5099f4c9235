// SPDX-License-Identifier: Apache-2.0
#include "vision/labels.h"

#include <tenon/error.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "vision/file.h"

namespace tenon::vision {
namespace {

constexpr size_t max_labels = 100000;
constexpr int64_t max_label_file = 16 << 20;

class Scanner {
 public:
  /// `where` and `code` are those of its errors.
  Scanner(std::string_view text, std::string where, Code code) : text_(text), where_(std::move(where)), code_(code) {}

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
  /// A name, or a list whose last entry is the name, as [identifier, name].
  std::string name() {
    if (!take('[')) return quoted();
    std::string last = quoted();
    while (take(',')) last = quoted();
    expect(']');
    return last;
  }
  void end() {
    skip_blanks();
    if (at_ != text_.size()) refuse("text after the end");
  }
  [[noreturn]] void refuse(std::string why) const {
    throw Error(code_, "cannot read the class names",
                {.where = where_ + ", byte " + std::to_string(at_),
                 .why = std::move(why),
                 .hint = "give a labels file, one name a line"});
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  std::string_view text_;
  std::string where_;
  Code code_;
  size_t at_ = 0;
};

/// {0: 'a', 1: 'b'} or ['a', 'b'], as Python and JSON write them.
std::vector<std::string> parsed(Scanner scan) {
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
    labels[id] = scan.name();
    if (scan.take(',')) continue;
    scan.expect(close);
    break;
  }
  scan.end();
  return labels;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
}

/// Without quotes around the whole.
std::string unquoted(std::string_view text) {
  const bool quoted = text.size() > 1 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0];
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    line = line.substr(0, line.find_last_not_of(" \r") + 1);
    lines.emplace_back(line);
    begin = end + 1;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// "7: person", "7,person" and "7 person" without the number, where line 7 has it and so has each line its own.
std::vector<std::string> without_numbers(std::vector<std::string> lines) {
  std::vector<std::string> names;
  for (const std::string& line : lines) {
    size_t number = 0;
    const auto [end, status] = std::from_chars(line.data(), line.data() + line.size(), number);
    const auto digits = static_cast<size_t>(end - line.data());
    const bool numbered = status == std::errc() && number == names.size() && digits < line.size() &&
                          std::string_view(",: ").find(line[digits]) != std::string_view::npos;
    const std::string_view name = numbered ? trimmed(std::string_view(line).substr(digits + 1)) : std::string_view();
    if (name.empty()) return lines;
    names.push_back(unquoted(name));
  }
  return names;
}

/// What stands below "names:" in a data set's YAML: "0: person" or "- person", further in than that line.
std::vector<std::string> below_names(const std::vector<std::string>& lines) {
  std::vector<std::string> names;
  auto line = std::find_if(lines.begin(), lines.end(), [](const std::string& one) { return one == "names:"; });
  for (line += line != lines.end(); line != lines.end(); ++line) {
    const std::string_view entry = trimmed(std::string_view(*line).substr(0, line->find(" #")));
    if (entry.empty() || entry[0] == '#') continue;
    const bool listed = entry.starts_with("- ");
    if (!listed && (*line)[0] != ' ') break;
    names.push_back(listed ? unquoted(trimmed(entry.substr(2))) : std::string(entry));
  }
  return without_numbers(std::move(names));
}

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
  return parsed(Scanner(text, "the metadata entry \"names\"", Code::invalid_model));
}

std::vector<std::string> labels_from_file(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, max_label_file);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (text.find('\0') != text.npos)
    throw Error(Code::io, "the file does not hold labels",
                {.where = path, .why = "it is not UTF-8 text", .hint = "give a text file, one name a line"});
  const std::string_view content = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (content.starts_with('{') || content.starts_with('[')) return parsed(Scanner(content, path, Code::io));
  std::vector<std::string> lines = lines_of(text);
  if (lines.size() > max_labels) throw Error(Code::io, "too many labels", {.where = path});
  if (path.ends_with(".yaml") || path.ends_with(".yml"))
    if (std::vector<std::string> names = below_names(lines); !names.empty()) return names;
  return without_columns(without_numbers(std::move(lines)));
}

std::string label(const std::vector<std::string>& labels, int class_id) {
  const auto at = static_cast<size_t>(class_id);
  return class_id >= 0 && at < labels.size() && !labels[at].empty() ? labels[at] : std::to_string(class_id);
}

}  // namespace tenon::vision
