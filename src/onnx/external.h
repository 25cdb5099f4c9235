#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/file.h"

namespace tenon::onnx {

/// The files beside a model that hold its large tensors. Only regular files inside the model's folder are opened: no `..`, no absolute
/// path, no symbolic link that leaves the folder, no second name of a file elsewhere.
class ExternalData {
 public:
  /// An empty folder refuses everything.
  explicit ExternalData(std::string folder) : folder_(std::move(folder)) {}
  /// The mapped file at `location`, relative to the folder; mapped once. Throws Error(invalid_model) or Error(io) naming `tensor`.
  std::shared_ptr<const MappedFile> file(const std::string& location, const std::string& tensor);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace tenon::onnx
