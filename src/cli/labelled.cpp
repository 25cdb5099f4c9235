// SPDX-License-Identifier: Apache-2.0
#include "cli/labelled.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/entries.h"
#include "vision/decode.h"
#include "vision/file.h"

namespace fs = std::filesystem;

namespace tenon::cli {
namespace {

using LabelJson = nlohmann::json;
constexpr int64_t largest = int64_t{1} << 30;

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw Error(Code::io, "the labels cannot be read",
              {.where = path,
               .why = why,
               .hint = "give COCO's JSON, a list of images and classes as JSON or CSV, or a folder for each class"});
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool is_image(const std::string& path) { return is_regular_file(path) && vision::is_image_name(path); }

class Reader {
 public:
  Reader(const std::string& path, const std::vector<std::string>& folders) : folders_(folders) {
    labels_.where = path;
    // As COCO's own folders lie: annotations/instances_val2017.json beside val2017.
    const fs::path file(path), beside = file.parent_path();
    std::string stem = file.stem().string();
    if (stem.starts_with("instances_")) stem = stem.substr(std::string("instances_").size());
    const fs::path near[] = {beside, beside / stem, beside / ".." / stem};
    for (size_t at = std::size(near); at-- > 0;)
      if (at == 0 || is_folder(near[at])) folders_.insert(folders_.begin(), near[at].string());
  }

  Labels read() {
    const std::string& path = labels_.where;
    if (is_folder(path)) tree();
    else {
      const std::vector<uint8_t> bytes = vision::read_file(path, largest);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (path.ends_with(".csv")) csv(text);
      else json(text);
    }
    finish();
    return std::move(labels_);
  }

 private:
  /// The category of a class told by number or name.
  size_t category(const std::string& name, int64_t number, const std::string& seen_in) {
    const auto [entry, fresh] = known_.try_emplace({name, number}, labels_.categories.size());
    if (fresh) labels_.categories.push_back({name, number, seen_in});
    return entry->second;
  }
  size_t category(const std::string& word, const std::string& seen_in) {
    const std::optional<int64_t> number = number_of(word);
    return number ? category("", *number, seen_in) : category(word, -1, seen_in);
  }
  size_t category(const LabelJson& told, const std::string& seen_in) {
    if (told.is_number_integer() && told.get<int64_t>() >= 0) return category("", told.get<int64_t>(), seen_in);
    if (told.is_string()) return category(told.get<std::string>(), seen_in);
    damaged(labels_.where, seen_in + " has a class that is neither a number nor a name");
  }

  std::string find(const std::string& name) {
    for (const std::string& folder : folders_)
      if (const fs::path path = fs::path(folder) / name; is_regular_file(path)) return path.string();
    if (++missing_ == 1) first_missing_ = name;
    return name;
  }

  void tree() {
    for (const std::string& folder : entries_of(labels_.where)) {
      if (!is_folder(folder)) continue;
      for (const std::string& path : entries_of(folder))
        if (is_image(path))
          labels_.images.push_back({path, category(fs::path(folder).filename().string(), "folder " + folder), {}});
    }
  }

  void csv(std::string_view text) {
    for (size_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view row = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      while (!row.empty() && (row.back() == '\r' || row.back() == ' ')) row.remove_suffix(1);
      if (row.empty()) continue;
      const size_t comma = row.rfind(',');
      if (comma == std::string_view::npos || comma == 0 || comma + 1 == row.size())
        damaged(labels_.where, fmt::format("line {} is no \"FILE,CLASS\"", line));
      const std::string name(row.substr(0, comma)), word(row.substr(comma + 1));
      if (line == 1 && !vision::is_image_name(name)) continue;  // the names of columns
      labels_.images.push_back({find(name), category(word, fmt::format("line {}", line)), {}});
    }
  }

  void json(std::string_view text) {
    const LabelJson json = LabelJson::parse(text, nullptr, false);
    if (json.is_discarded()) damaged(labels_.where, "it is no JSON");
    try {
      if (json.is_object() && json.contains("images") && json["images"].is_array()) coco(json);
      else if (json.is_object() && json.contains("detections") && json["detections"].is_array())
        list(json["detections"]);
      else if (json.is_object())
        for (const auto& [name, told] : json.items())
          labels_.images.push_back({find(name), category(told, name), {}});
      else list(json);
    } catch (const LabelJson::exception& fault) {
      damaged(labels_.where, fault.what());
    }
  }

  void list(const LabelJson& json) {
    if (!json.is_array()) damaged(labels_.where, "it is neither a list nor an object");
    for (const LabelJson& entry : json) {
      const auto name = entry.at("image").get<std::string>();
      const auto objects = entry.contains("objects") ? entry.find("objects") : entry.find("detections");
      LabelledImage& source_image = labels_.images.emplace_back();
      source_image.path = find(name);
      if (objects == entry.end()) {
        source_image.category = category(entry.at("class"), name);
        continue;
      }
      labels_.boxes = true;
      for (const LabelJson& object : *objects) {
        const auto box = object.at("box").get<std::vector<double>>();
        if (box.size() != 4) damaged(labels_.where, name + " has a box that is not of four numbers");
        source_image.boxes.push_back({category(object.at("class"), name), box[0], box[1], box[2], box[3]});
      }
    }
  }

  void coco(const LabelJson& json) {
    labels_.boxes = true;
    std::map<int64_t, std::string> names;
    for (const LabelJson& one : json.at("categories"))
      names[one.at("id").get<int64_t>()] = one.at("name").get<std::string>();
    std::map<int64_t, size_t> categories, images;
    for (const auto& [id, name] : names) {
      categories[id] = labels_.categories.size();
      labels_.categories.push_back({name, -1, ""});
    }
    for (const LabelJson& image : json.at("images")) {
      images[image.at("id").get<int64_t>()] = labels_.images.size();
      labels_.images.push_back({find(image.at("file_name").get<std::string>()), 0, {}});
    }
    for (const LabelJson& one : json.at("annotations")) {
      const auto source_image = images.find(one.at("image_id").get<int64_t>());
      const auto kind = categories.find(one.at("category_id").get<int64_t>());
      if (source_image == images.end())
        damaged(labels_.where, "an annotation is of image " + one.at("image_id").dump() + ", not listed");
      if (kind == categories.end())
        damaged(labels_.where, "an annotation is of category " + one.at("category_id").dump() + ", not listed");
      const auto box = one.at("bbox").get<std::vector<double>>();
      if (box.size() != 4) damaged(labels_.where, "a box is not of four numbers");
      LabelledImage& shown = labels_.images[source_image->second];
      labels_.categories[kind->second].seen_in = shown.path;
      const bool crowd = one.contains("iscrowd") && one["iscrowd"] != 0;
      shown.boxes.push_back({kind->second, box[0], box[1], box[0] + box[2], box[1] + box[3], crowd});
    }
  }

  void finish() const {
    if (labels_.images.empty())
      throw Error(Code::usage, "there are no labelled images", {.where = labels_.where});
    if (missing_ > 0) {
      std::string where;
      for (const std::string& folder : folders_) where += (where.empty() ? "" : ", ") + (folder.empty() ? "." : folder);
      throw Error(Code::usage,
                  fmt::format("{} of the {} labelled images cannot be found", missing_, labels_.images.size()),
                  {.where = labels_.where,
                   .why = fmt::format("the first is \"{}\"; looked in {}", first_missing_, where),
                   .hint = "names of images are taken from the labels' folder and from --data"});
    }
    if (labels_.boxes && std::all_of(labels_.images.begin(), labels_.images.end(),
                                     [](const LabelledImage& source_image) { return source_image.boxes.empty(); }))
      throw Error(Code::usage, "no image has a labelled box", {.where = labels_.where});
  }

  Labels labels_;
  std::vector<std::string> folders_;
  std::map<std::pair<std::string, int64_t>, size_t> known_;
  size_t missing_ = 0;
  std::string first_missing_;
};

}  // namespace

bool holds_labels(const std::string& path) {
  if (!is_folder(path)) return path.ends_with(".json") || path.ends_with(".csv");
  bool found = false;
  for (const std::string& entry : entries_of(path)) {
    if (is_image(entry)) return false;
    if (!found && is_folder(entry))
      for (const std::string& inner : entries_of(entry)) found = found || is_image(inner);
  }
  return found;
}

Labels read_labels(const std::string& path, const std::vector<std::string>& folders) {
  return Reader(path, folders).read();
}

std::vector<int> classes_of(const Labels& labels, const std::vector<std::string>& names, int64_t classes) {
  std::vector<char> used(labels.categories.size());
  for (const LabelledImage& source_image : labels.images) {
    if (!labels.boxes) used[source_image.category] = 1;
    for (const LabelledBox& box : source_image.boxes) used[box.category] = 1;
  }
  std::vector<int> found(labels.categories.size(), -1);
  const Category* strange = nullptr;
  bool any = false;
  for (size_t at = 0; at < found.size(); ++at) {
    const Category& category = labels.categories[at];
    const auto name = std::find(names.begin(), names.end(), category.name);
    if (category.number >= 0 && category.number < classes) found[at] = static_cast<int>(category.number);
    else if (category.number < 0 && name != names.end() && name - names.begin() < classes)
      found[at] = static_cast<int>(name - names.begin());
    any = any || found[at] >= 0;
    if (used[at] && found[at] < 0 && !strange) strange = &category;
  }
  if (!strange) return found;
  if (!any && static_cast<int64_t>(found.size()) == classes && strange->number < 0) {
    for (size_t at = 0; at < found.size(); ++at) found[at] = static_cast<int>(at);
    return found;
  }
  throw Error(
      Code::usage,
      strange->number >= 0
          ? fmt::format("the labels name class {}, and the model has 0 to {}", strange->number, classes - 1)
          : fmt::format("the model has no class \"{}\"", strange->name),
      {.where = labels.where,
       .why = (strange->seen_in.empty() ? "" : strange->seen_in + "; ") +
              fmt::format("the labels have {}, the model {}", counted(labels.categories.size(), "class"), classes),
       .hint = names.empty() ? "the model tells no names of its classes: number them as it does"
                             : "classes are named as in the model's metadata, or numbered"});
}

}  // namespace tenon::cli
