// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/evidence.h"
#include "quant/data_loader.h"
#include "quant/histogram.h"

namespace tenon::quant {

/// Statistics of one image as the model gets it.
struct Image {
  std::string name;
  int64_t channels = 3;
  float low = 0, high = 0;
  float range = 0;  // from the least to the greatest number of one channel, of that with the greatest
  double mean = 0, deviation = 0;
  double first = 0, last = 0;    // means of the first and the last of three channels; 0 for others
  std::array<float, 64> grid{};  // brightness of 8x8 parts
};

/// The image in a sample of sizes [C, H, W] or [H, W, C] with one or three channels, without bars of one colour
/// around it.
Image image_of(const float* data, int64_t channels, int64_t height, int64_t width, bool channels_first);

/// What is odd about a set of images, from their statistics alone: too dark, too bright, constant, one scene, scaled
/// twice or before a mean of bytes was taken.
std::vector<plan::Suspicion> suspicions_of(const std::vector<Image>& images);

/// How much images look alike: the middle of their correlations, 0 for fewer than two. Above `same_scene` they show one
/// scene, as frames of a video do.
double likeness(const std::vector<Image>& images);
inline constexpr double same_scene = 0.9;

/// How certain the outputs of one of a batch's images look: of score lists how far the best stands out, of score maps
/// the best scores. Comparable only between runs of one model. 0 where nothing looks like a score.
double certainty(const std::vector<Tensor>& outputs, int64_t image = 0, int64_t images = 1);

/// Follows a calibration batch by batch and keeps what the audit needs; memory grows with the tensors and by a few
/// hundred bytes an image.
class Auditor {
 public:
  Auditor(const ir::Graph& graph, size_t groups);
  /// The graph's outputs for inputs in its order.
  using Run = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  /// Whether the input is images, so that note() makes use of `run`.
  bool has_images() const { return images_; }
  /// After a batch has run: `histograms` by scale group; `run` runs the graph, and may be empty.
  void note(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs,
            const std::vector<Histogram>& histograms, const Run& run);
  /// After the last batch.
  void finish(const std::vector<Histogram>& histograms);

  struct Ends {
    float low = 0, high = 0;
    std::string low_from, high_from;
  };
  struct Snapshot {
    int64_t samples;
    std::vector<double> ranges;  // by scale group
  };
  /// What cannot be had again from the data alone.
  struct State {
    std::vector<Ends> ends;           // by scale group
    std::vector<Snapshot> snapshots;  // after 1, 2, 4, … samples, and the last
    std::vector<double> gains;        // in certainty with colour channels exchanged, of the first images
    int rescaled = 0, same_best = 0;  // images at another scale, and those whose best scores stayed where they were
  };
  const State& state() const { return state_; }
  /// Before the first batch is noted: goes on from there.
  void resume(State state) { state_ = std::move(state); }
  /// A batch that the state already counts.
  void pass_over(const DataLoader::Batch& batch);
  std::vector<plan::Coverage> coverage() const;
  /// `graph` as optimised.
  std::vector<plan::Suspicion> suspicions(const ir::Graph& graph) const;
  /// Of these, what concerns the way from images to the input: their scale, and the order of their colours.
  std::vector<plan::Suspicion> preprocessing(const ir::Graph& graph) const;

 private:
  void look(const DataLoader::Batch& batch);
  void exchange(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs, const Run& run);
  void rescale(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs, const Run& run);
  bool is_indifferent_to_scale() const;
  /// A small scale of images that are odd anyway, such as dark ones, is no news.
  std::vector<plan::Suspicion> preprocessing(const ir::Graph& graph, bool images_are_odd) const;

  Snapshot snapshot(const std::vector<Histogram>& histograms) const;
  State state_;
  int64_t samples_ = 0;
  bool images_ = false, channels_first_ = true;
  int64_t channels_ = 0, height_ = 0, width_ = 0;
  std::vector<Image> seen_;
};

}  // namespace tenon::quant
