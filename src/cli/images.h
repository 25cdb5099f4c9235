// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/doubts.h"
#include "cli/options.h"
#include "vision/heads.h"
#include "vision/preprocess.h"

namespace tenon::cli {

/// What detect, segment and classify share: a network that takes an image, and the images to give it.
struct ImageOptions : ModelOptions {
  std::string source, output_dir, json, labels, preprocess;
  std::vector<std::string> more;  ///< sources, as a pattern without quotes gives them
  int batch_size = 0;             ///< images that run together; 0: the model's own batch, 1 where it is free
  void add_to(CLI::App& app);
};

/// An image, or a frame of a video (`frame` counts from 0; -1 for images).
struct SourceImage {
  std::string path;
  int64_t frame = -1;
  double fps = 0;  ///< of the video
  vision::Image image;
  double decode_ms = 0, preprocess_ms = 0, inference_ms = 0, postprocess_ms = 0;
  int64_t slot = 0;  ///< its place in the batch
};

/// Takes an image whose run has ended, the outputs of its batch, which are gone after that, and how it lies in the
/// input.
using Seen = std::function<void(SourceImage&, const std::vector<Tensor>& outputs, const vision::Transform&)>;

/// Sessions with their preprocessing.
class ImageModel {
 public:
  /// `preset` is used where --preprocess is not given. Throws Error(unsupported) for a model that does not
  /// take one image.
  ImageModel(const ImageOptions& options, const std::string& preset);
  /// Takes over an image and gives `seen` those whose runs have ended, in order. A batch runs when it is full. On a GPU
  /// a batch is prepared and copied there while the one before is worked on; on the CPU, and the first one everywhere,
  /// each is seen before the next is begun.
  void feed(SourceImage& source_image, const Seen& seen);
  /// Runs the rest and gives it to `seen`.
  void finish(const Seen& seen);
  /// Changes how images are prepared, and runs the first batch again; sizes stay the model's. For `seen`, at the first
  /// image: the outputs that it was given are those of the new run afterwards.
  void prepare_as(const std::string& spec);
  const vision::Spec& spec() const { return spec_; }
  /// Tells on stderr how images become the input where that is a guess, and where the number of labels is not that of
  /// the classes, or there are none. Once; nothing with --quiet. After a guess the next images are looked at, too, and
  /// finish() tells what looks wrong.
  void tell_doubts(int64_t classes);
  /// Warns that results look wrong, and keeps it for the report.
  void suspect(const std::string& line);
  /// What a report says beside its results: schema, model, device, preprocessing and where it is from, class count.
  nlohmann::ordered_json facts() const;
  /// Whether neither the options nor the model say how images become the input.
  bool uses_preset() const { return uses_preset_; }
  const std::vector<std::string>& labels() const { return labels_; }
  /// What the model says of its head.
  vision::ModelHints hints() const;
  /// The head of a detector, if the outputs have one, whatever number of --labels there is.
  std::optional<vision::Head> head_of(const std::vector<Tensor>& outputs) const;
  /// Images that the input holds.
  int64_t batch() const { return runners_[0].input.dims().rank() == 3 ? 1 : runners_[0].input.dims()[0]; }

 private:
  /// A session and the images that it works on.
  struct Runner {
    Session session;
    Tensor input;  // of the image, as f32; one of the inputs where the model takes f32
    std::vector<Tensor> inputs;
    std::vector<Tensor> results, outputs;  // as the model gives them, and those in 16 bits as f32
    std::vector<SourceImage> images;  // `filled` of them are of this batch
    std::vector<vision::Transform> transforms;
    size_t filled = 0, image = 0;  // `image` is the number of the input that takes it
    std::future<void> under_way;  // last, as it ends before the rest goes
  };
  ImageModel(const ImageOptions& options, const std::string& preset, const Shapes& shapes);
  Runner runner(int threads, const Shapes& shapes) const;
  void prepare(Runner& runner, size_t slot);
  static void run(Runner& runner);
  void start(const Seen& seen);
  void settle(Runner& runner, const Seen& seen);

  Engine engine_;
  std::vector<Runner> runners_;
  size_t next_ = 0;  // of the runners, for the next image
  vision::Spec spec_;
  bool uses_preset_, quiet_, told_ = false, begun_ = false;
  std::optional<Doubts> doubts_;       // while they may grow, where the preprocessing is a guess
  std::string model_, preset_, from_;  // `from_` is what told the preprocessing
  std::vector<std::string> labels_, suspicions_;
  size_t named_ = 0;  // classes that the model itself names
};

}  // namespace tenon::cli
