#pragma once
#include <string>
#include <vector>

#include "backends/cuda/device.h"

namespace tenon::cuda {

/// A library that the GPU backend uses or could use.
struct LibraryState {
  std::string name, version, path;
  std::string why, hint;  // where it cannot be used
};

/// What this machine offers; asking for it does not fail and starts no work on a GPU.
struct Survey {
  std::vector<Properties> devices;
  std::string why;  // why there are none
  std::vector<LibraryState> libraries;
};
Survey survey();

}  // namespace tenon::cuda
