// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/runtime/executable.h"

/// Neighbouring steps that are small copies, such as what a decoder appends to its caches, are one launch: each launch
/// of a recording takes its time whatever it does. A fault in one is blamed on the first of its steps.
namespace tenon::cuda {
namespace {

constexpr unsigned most_units = 1 << 18;  // of a copy; larger ones fill the GPU by themselves

bool meets(const std::vector<Footprint>& a, const std::vector<Footprint>& b) {
  for (const Footprint& one : a)
    for (const Footprint& other : b)
      if (conflict(one, other)) return true;
  return false;
}

}  // namespace

bool DeviceExecutable::copies_of(const BoundStep& step, std::vector<CopyPart>& parts) {
  Launch launch{};
  launch.inputs = step.inputs.data(), launch.outputs = step.outputs.data();
  return step.step->copies(launch, parts);
}

size_t DeviceExecutable::copies_at(size_t first, std::span<const std::vector<Footprint>> touched,
                                   std::vector<CopyPart>& parts) const {
  parts.clear();
  size_t count = 0;
  for (; count < touched.size(); ++count) {
    std::vector<CopyPart> own;
    if (!copies_of(steps_[first + count], own) || parts.size() + own.size() > most_copies) break;
    bool fits = std::all_of(own.begin(), own.end(), [](const CopyPart& part) { return part.count <= most_units; });
    for (size_t before = 0; fits && before < count; ++before) fits = !meets(touched[before], touched[count]);
    if (!fits) break;
    parts.insert(parts.end(), own.begin(), own.end());
  }
  return count;
}

void DeviceExecutable::enqueue_copies(size_t first, const std::vector<CopyPart>& parts, Stream stream) const {
  CopiesParams params{};
  unsigned blocks = 0;
  for (const CopyPart& part : parts) {
    CopyPart& own = params.parts[params.count++] = part;
    own.first_block = blocks;
    blocks += (part.count + 255) / 256;
  }
  launch(device_, copies_, {blocks, 1, 1, 256, 0}, launch_of(first, stream), params);
}

void DeviceExecutable::enqueue_in_order(size_t first, size_t last) {
  const std::vector<std::vector<Footprint>> touched = footprints(first, last);
  std::vector<CopyPart> parts;
  for (size_t at = first; at < last;) {
    const size_t count = copies_ ? copies_at(at, std::span(touched).subspan(at - first), parts) : 0;
    if (parts.size() > 1) enqueue_copies(at, parts, clock_.stream());
    else enqueue(steps_[at], clock_.stream());
    at += parts.size() > 1 ? count : 1;
  }
}

}  // namespace tenon::cuda
