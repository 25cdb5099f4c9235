// SPDX-License-Identifier: Apache-2.0
#include "cli/labelled_samples.h"

#include "vision/decode.h"

namespace tenon::cli {
namespace {

class LabelledSamples : public Calibrator {
 public:
  LabelledSamples(const Labels& labels, const vision::Spec& spec, std::vector<vision::Transform>& transforms)
      : labels_(labels), spec_(spec), transforms_(transforms) {
    transforms_.clear();
  }
  int64_t samples() const override { return static_cast<int64_t>(labels_.images.size()); }
  bool next_batch(CalibrationBatch& batch) override {
    if (transforms_.size() == labels_.images.size()) return false;
    const std::string& path = labels_.images[transforms_.size()].path;
    const vision::Image image = vision::decode_image(path);
    std::vector<vision::Transform> one;
    batch.inputs[""] = vision::preprocess(std::span<const vision::Image>(&image, 1), spec_, &one);
    batch.names = {path};
    transforms_.push_back(one[0]);
    return true;
  }

 private:
  const Labels& labels_;
  const vision::Spec& spec_;
  std::vector<vision::Transform>& transforms_;
};

}  // namespace

std::shared_ptr<Calibrator> labelled_samples(const Labels& labels, const vision::Spec& spec,
                                             std::vector<vision::Transform>& transforms) {
  return std::make_shared<LabelledSamples>(labels, spec, transforms);
}

}  // namespace tenon::cli
