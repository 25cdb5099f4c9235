// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/executable.h"

/// What an executable on a GPU says where its device fails.
namespace tenon::cuda {

std::string DeviceExecutable::under_way() const {
  const auto* trails = reinterpret_cast<const volatile uint32_t*>(trails_.data());
  std::string text;
  for (size_t lane = 0; lane < most_lanes; ++lane) {
    // A trail is one more than the step; where the steps behind it leave none, one of them may have begun.
    for (size_t at = trails[lane]; at > 0 && at <= steps_.size(); ++at) {
      const BoundStep& step = steps_[at - 1];
      text += (text.empty() ? "" : ", or ") + graph().node(step.node).op + " " + graph().node(step.node).label() +
              ", kernel \"" + step.kernel + "\"";
      if (at == steps_.size() || !steps_[at].step || steps_[at].step->leaves_trail()) break;
    }
  }
  return text.empty() ? "before the first kernel of a run began" : text;
}

}  // namespace tenon::cuda
