#include "backends/cuda/survey.h"

#include <tenon/error.h>

#include "backends/cuda/blas.h"
#include "backends/cuda/dnn.h"

namespace tenon::cuda {

Survey survey() {
  Survey result;
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

  const auto add_rival = [&](const char* name, const auto& rival, const char* package) {
    state = {name, "", rival.library.path, rival.why, ""};
    if (rival.why.empty()) {
      const size_t version = rival.GetVersion();
      state.version = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                      std::to_string(version % 100);
    } else {
      state.hint = std::string("it is a rival of own kernels and not needed: pip install ") + package;
    }
    result.libraries.push_back(state);
  };
  if (d.why.empty()) {
    add_rival("cuBLASLt", blas(), "nvidia-cublas");
    add_rival("cuDNN", dnn(), "nvidia-cudnn-cu13");
  }
  return result;
}

}  // namespace tenon::cuda
