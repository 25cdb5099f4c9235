// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/file.h"

namespace tenon::onnx {

/// The files beside a model that hold its large tensors. Only regular files inside the model's folder are opened: no
/// `..`, no absolute path, no symbolic link, no second name of a file elsewhere. Two things widen that: where the model
/// is itself a symbolic link (the Hugging Face cache), links may lead into the folder that the model really lies in;
/// and `root` may hold data, by whatever name.
class ExternalData {
 public:
  /// An empty folder refuses everything.
  explicit ExternalData(std::string folder, std::string model = "", std::string root = "")
      : folder_(std::move(folder)), model_(std::move(model)), root_(std::move(root)) {}
  /// The mapped file at `location`, relative to the folder; mapped once. Throws Error(invalid_model) or Error(io)
  /// naming `tensor`.
  std::shared_ptr<const MappedFile> file(const std::string& location, const std::string& tensor);

  /// All that were asked for.
  Files files() const;

 private:
  /// A descriptor of the file where a widening allows it; -1 otherwise.
  int open_widened(const std::string& location) const;

  std::string folder_, model_, root_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace tenon::onnx
