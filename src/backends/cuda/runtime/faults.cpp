// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/executable.h"

/// What an executable on a GPU says where its device fails.
namespace tenon::cuda {

std::string DeviceExecutable::under_way() const {
  const auto* breadcrumbs = reinterpret_cast<const volatile uint32_t*>(breadcrumbs_.data());
  std::string text;
  for (size_t stream_at = 0; stream_at < most_streams; ++stream_at) {
    // A breadcrumb is one more than the step; where the steps behind it leave none, one of them may have begun.
    for (size_t at = breadcrumbs[stream_at]; at > 0 && at <= steps_.size(); ++at) {
      const BoundStep& step = steps_[at - 1];
      text += (text.empty() ? "" : ", or ") + graph().node(step.node).op + " " + graph().node(step.node).label() +
              ", kernel \"" + step.kernel + "\"";
      if (at == steps_.size() || !steps_[at].step || steps_[at].step->leaves_breadcrumbs()) break;
    }
  }
  return text.empty() ? "before the first kernel of a run began" : text;
}

}  // namespace tenon::cuda
