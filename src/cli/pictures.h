#pragma once
#include <tenon/tenon.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "vision/preprocess.h"

namespace tenon::cli {

/// What detect and classify share: a network of one picture input, and the pictures to give it.
struct PictureOptions : ModelOptions {
  std::string source, output_dir, json, labels, preprocess;
  void add_to(CLI::App& app);
};

/// A session with its preprocessing; one picture at a time.
class PictureModel {
 public:
  /// `preset` is used where --preprocess is not given. Throws Error(unsupported) for a model without one picture input.
  PictureModel(const PictureOptions& options, const std::string& preset);
  /// The outputs, valid until the next run, and how the picture lies in the input.
  const std::vector<Tensor>& run(const vision::Image& image, vision::Transform& transform);
  /// Changes how pictures are prepared; sizes stay the model's.
  void prepare_as(const std::string& spec);
  const vision::Spec& spec() const { return spec_; }
  /// Whether neither the options nor the model say how pictures become the input.
  bool uses_preset() const { return uses_preset_; }
  const std::vector<std::string>& labels() const { return labels_; }
  /// Pictures that the input holds; run fills the first of them.
  int64_t batch() const { return input_.dims()[0]; }

 private:
  PictureModel(const PictureOptions& options, const std::string& preset, const Shapes& shapes);

  Engine engine_;
  Session session_;
  Tensor input_;
  std::vector<Tensor> outputs_;
  vision::Spec spec_;
  bool uses_preset_;
  std::vector<std::string> labels_;
};

/// A picture, or a frame of a video (`frame` counts from 0; -1 for pictures).
struct Picture {
  std::string path;
  int64_t frame = -1;
  vision::Image image;
};

/// Calls `each` for the pictures of a file, a folder (by name, not below it) or the frames of a video. A picture that
/// cannot be read is named on stderr and passed over, and so is the damaged rest of a video; gives the number of those.
/// Throws Error(io) where nothing can be read.
int64_t for_each_picture(const std::string& source, const std::function<void(Picture&)>& each);

/// Throws Error(io) where there is no such file or folder, so that a wrong name is known before a model is built.
void require_source(const std::string& source);

/// Frames per second of a video source; 0 for pictures.
double frame_rate(const std::string& source);

}  // namespace tenon::cli
