// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/device_query.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <nlohmann/json.hpp>

#include "backends/cuda/vendor/blas.h"
#include "backends/cuda/runtime/device.h"
#include "backends/cuda/vendor/dnn.h"
#include "base/memory.h"
#include "base/printable.h"

namespace tenon::cuda {
namespace {

using Json = nlohmann::ordered_json;

/// A library that the GPU backend uses or could use.
struct LibraryState {
  std::string name, version, path;
  std::string why, hint;  // where it cannot be used
};

struct DeviceQuery {
  std::vector<Properties> devices;
  std::string why;  // why there are none
  std::vector<LibraryState> libraries;
};

DeviceQuery device_query() {
  DeviceQuery result;
  const Driver& d = driver();
  result.why = d.why;
  if (d.why.empty()) try {
      for (int index = 0; index < d.devices; ++index) result.devices.push_back(properties_of(index));
    } catch (const Error& error) {
      result.why = error.why();
    }
  LibraryState state{"driver", d.version ? version_text(d.version) : "", d.library.path, d.why, ""};
  if (!d.why.empty()) state.hint = "install the NVIDIA driver, and give this process access to the GPU";
  result.libraries.push_back(state);

  const Compiler& nvrtc = compiler();
  state = {"NVRTC", "", nvrtc.library.path, nvrtc.why, ""};
  if (nvrtc.major) state.version = std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
  if (!nvrtc.why.empty()) state.hint = "it compiles the kernels: pip install nvidia-cuda-nvrtc, or the CUDA toolkit";
  result.libraries.push_back(state);

  const auto add_vendor = [&](const char* name, const auto& vendor, const char* package) {
    state = {name, "", vendor.library.path, vendor.why, ""};
    if (vendor.why.empty()) {
      const size_t version = vendor.GetVersion();
      state.version = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                      std::to_string(version % 100);
    } else {
      state.hint =
          std::string("it offers further candidates beside own kernels and is not needed: pip install ") + package;
    }
    result.libraries.push_back(state);
  };
  if (d.why.empty()) {
    add_vendor("cuBLASLt", blas(), "nvidia-cublas");
    add_vendor("cuDNN", dnn(), "nvidia-cudnn-cu13");
  }
  return result;
}

Json facts_of(const Properties& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"l2_bytes", gpu.l2_bytes}};
}

Json facts_of(const LibraryState& library) {
  return {{"name", library.name},
          {"version", library.version},
          {"path", library.path},
          {"why", library.why},
          {"hint", library.hint}};
}

}  // namespace

std::string device_query_text(Json& facts) {
  const DeviceQuery found = device_query();
  facts["cuda"] = facts["cuda_libraries"] = Json::array();
  facts["cuda_why"] = found.why;
  std::string text = found.devices.empty() ? fmt::format("cuda  none: {}\n", found.why) : std::string();
  for (const Properties& gpu : found.devices) {
    facts["cuda"].push_back(facts_of(gpu));
    text += fmt::format("cuda:{} {}, compute capability {}.{}\n       {} multiprocessors, memory {}, L2 {}\n",
                        gpu.index, printable(gpu.name), gpu.major, gpu.minor, gpu.multiprocessors,
                        memory_text(gpu.memory_bytes), memory_text(gpu.l2_bytes));
  }
  for (const LibraryState& library : found.libraries) {
    facts["cuda_libraries"].push_back(facts_of(library));
    if (library.why.empty())
      text += fmt::format("      {} {} in {}\n", library.name, library.version, printable(library.path));
    else if (!found.devices.empty() || library.name != "driver")
      text += fmt::format("      no {}: {}\n      you can: {}\n", library.name, printable(library.why), library.hint);
  }
  return text;
}

}  // namespace tenon::cuda
