// SPDX-License-Identifier: Apache-2.0
#include "cli/image_pass.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "base/entries.h"
#include "cli/notes.h"
#include "cli/rate.h"
#include "cli/report.h"
#include "cli/signals.h"

namespace tenon::cli {
namespace {

/// Mean times of each stage.
class Speed {
 public:
  void add(const SourceImage& source_image) {
    ++count_;
    decode_ += source_image.decode_ms;
    preprocess_ += source_image.preprocess_ms;
    inference_ += source_image.inference_ms;
    postprocess_ += source_image.postprocess_ms;
  }
  /// As a line for stderr; "" for none.
  std::string text() const {
    if (count_ == 0) return "";
    const auto each = static_cast<double>(count_);
    return fmt::format(
        "for each image: decode {:.1f} ms, preprocess {:.1f} ms, inference {:.1f} ms, postprocess {:.1f} ms",
        decode_ / each, preprocess_ / each, inference_ / each, postprocess_ / each);
  }

 private:
  int64_t count_ = 0;
  double decode_ = 0, preprocess_ = 0, inference_ = 0, postprocess_ = 0;
};

nlohmann::ordered_json entry_of(const SourceImage& source_image) {
  nlohmann::ordered_json entry = {{"image", source_image.path}};
  if (source_image.frame >= 0) entry["frame"] = source_image.frame;
  entry["width"] = source_image.image.width;
  entry["height"] = source_image.image.height;
  entry["ms"] = {{"decode", source_image.decode_ms},
                 {"preprocess", source_image.preprocess_ms},
                 {"inference", source_image.inference_ms},
                 {"postprocess", source_image.postprocess_ms}};
  return entry;
}

}  // namespace

ImagePass::ImagePass(const ImageOptions& options, const std::string& preset, int stride)
    : quiet_(options.quiet),
      stride_(stride),
      source_(options.source, options.more),
      gallery_(options.output_dir, source_, stride),
      model_(options, preset) {}

void ImagePass::run(const ImageSteps& steps) {
  Speed speed;
  const int64_t items = source_.items();
  Rate rate(source_.is_video() ? (items + stride_ - 1) / stride_ : items, source_.noun(), quiet_);
  const Seen seen = [&](SourceImage& source_image, const std::vector<Tensor>& outputs,
                        const vision::Transform& transform) {
    const auto begin = std::chrono::steady_clock::now();
    steps.read(source_image, outputs, transform);
    source_image.postprocess_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    speed.add(source_image);
    rate.clear();
    nlohmann::ordered_json entry = entry_of(source_image);
    steps.tell(source_image, entry);
    entries_.push_back(std::move(entry));
    ++images_;
    rate.add();
    if (!gallery_.wanted()) return;
    steps.draw(source_image);
    gallery_.add(source_image);
  };
  unread_ = source_.for_each([&](SourceImage& source_image) {
    if (source_image.frame <= 0 || source_image.frame % stride_ == 0) model_.feed(source_image, seen);
  });
  model_.finish(seen);
  gallery_.finish();
  rate.clear();
  if (const std::string text = speed.text(); !text.empty() && !quiet_) note(text, "speed");
}

void ImagePass::add_to(nlohmann::ordered_json& report, const char* key) {
  report["complete"] = interrupted() == 0 && unread_.empty();
  report["errors"] = nlohmann::ordered_json::array();
  for (const Unread& one : unread_) report["errors"].push_back({{"image", one.path}, {"why", one.why}});
  report[key] = std::move(entries_);
}

std::string ImagePass::counts() const {
  return counted(images_, source_.noun()) + (unread_.empty() ? "" : fmt::format(", {} unreadable", unread_.size()));
}

int ImagePass::status() const {
  if (interrupted() != 0) return interrupted();
  return !unread_.empty() ? static_cast<int>(Code::io) : 0;
}

void check_format(const std::string& format, const std::vector<std::string_view>& known, bool to_stdout,
                  const std::string& json) {
  if (std::find(known.begin(), known.end(), format) == known.end()) {
    std::string list;
    for (const std::string_view one : known) list += (list.empty() ? "" : ", ") + std::string(one);
    throw Error(Code::usage, "unknown format", {.where = "--format " + format, .hint = "one of " + list});
  }
  if (json == "-" && to_stdout)
    throw Error(Code::usage, "two outputs would go to the standard output",
                {.where = "--format " + format, .hint = "give --json a file"});
}

void write_report(const std::string& json, const std::string& format, const nlohmann::ordered_json& report,
                  const std::function<nlohmann::ordered_json()>& as_coco, const std::function<std::string()>& as_csv) {
  if (!json.empty()) write_json(json, report);
  if (format == "json") write_json("-", report);
  if (format == "coco") write_json("-", as_coco());
  if (format != "csv") return;
  const std::string text = as_csv();
  write_bytes("-", std::as_bytes(std::span(text)));
}

}  // namespace tenon::cli
