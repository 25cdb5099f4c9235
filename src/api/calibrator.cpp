// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "base/entries.h"
#include "base/file.h"

namespace tenon::api {
namespace {

/// Data that a function of C gives.
class CCalibrator : public Calibrator {
 public:
  explicit CCalibrator(const tenon_calibrator& form) : form_(form), cache_(form.cache ? form.cache : "") {}
  int64_t samples() const override { return form_.samples; }
  bool next_batch(CalibrationBatch& batch) override {
    const tenon_named_tensor* inputs = nullptr;
    const int32_t count = form_.next_batch(form_.context, &inputs);
    if (count < 0) throw Error(Code::usage, "the build was cancelled", {.where = "calibrator"});
    batch.inputs = tensors_of(inputs, static_cast<size_t>(count));
    return count > 0;
  }
  std::string read_cache() override {
    if (cache_.empty() || !is_there(cache_)) return {};
    const auto file = MappedFile::open(cache_);
    std::string text(file->bytes().size(), '\0');
    file->read(0, std::as_writable_bytes(std::span(text)));
    return text;
  }
  void write_cache(const std::string& text) override {
    if (!cache_.empty()) write_atomically(cache_, std::as_bytes(std::span(text)));
  }

 private:
  tenon_calibrator form_;
  std::string cache_;
};

CalibrationMethod method_of(const char* word) {
  const std::string name = word ? word : "auto";
  if (const auto method = calibration_method_named(name)) return *method;
  throw Error(Code::usage, "no calibrator is called \"" + name + "\"",
              {.where = "method", .hint = std::string("give ") + calibration_method_names});
}

}  // namespace

void calibrate_by(const tenon_calibrator* given, BuildOptions& options) {
  if (!given) return;
  const tenon_calibrator form = read(given, tenon_calibrator_init, "calibrator");
  required(form.next_batch ? &form : nullptr, "next_batch");
  options.calibrator = std::make_shared<CCalibrator>(form);
  options.calibration.method = method_of(form.method);
  options.calibration.percentile = form.percentile, options.calibration.target_error = form.max_error;
}

}  // namespace tenon::api
