// SPDX-License-Identifier: Apache-2.0
#include "vision/sources.h"

#include <tenon/error.h>

#include "base/entries.h"
#include "vision/decode.h"

namespace tenon::vision {

std::vector<std::string> images_in(const std::string& folder) {
  std::vector<std::string> images;
  for (std::string& path : entries_of(folder))
    if (is_image_name(path) && is_regular_file(path)) images.push_back(std::move(path));
  if (images.empty())
    throw Error(Code::io, "the folder has no images",
                {.where = folder, .hint = std::string("images are ") + image_endings + " files"});
  return images;
}

}  // namespace tenon::vision
