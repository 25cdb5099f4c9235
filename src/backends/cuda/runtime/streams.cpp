// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/streams.h"

#include <algorithm>
#include <numeric>

namespace tenon::cuda {

Footprint footprint(uint64_t address, const backends::Place& place, size_t element_bytes, bool writes) {
  if (place.dims.elements() == 0) return {};
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t axis = 0; axis < place.dims.rank(); ++axis)
    if (place.dims[axis] > 1) axes.push_back({place.strides[axis], place.dims[axis]});
  std::sort(axes.begin(), axes.end());
  int64_t run = 1, pitch = 0, last = 0;
  for (const auto& [stride, size] : axes) {
    last += stride * (size - 1);
    if (pitch == 0 && stride == run) run *= size;
    else pitch = std::gcd(pitch, stride);
  }
  const auto bytes = [&](int64_t elements) { return static_cast<uint64_t>(elements) * element_bytes; };
  const uint64_t begin = address + bytes(place.offset);
  return {begin, begin + bytes(last + 1), bytes(pitch), bytes(run), writes};
}

bool conflict(const Footprint& a, const Footprint& b) {
  if (!(a.writes || b.writes) || a.end <= b.begin || b.end <= a.begin) return false;
  if (a.pitch == 0 || a.pitch != b.pitch) return true;
  // Where runs of b begin behind those of a, which repeat.
  const uint64_t behind =
      b.begin >= a.begin ? (b.begin - a.begin) % a.pitch : (a.pitch - (a.begin - b.begin) % a.pitch) % a.pitch;
  return behind < a.run || behind + b.run > a.pitch;
}

namespace {

bool conflict(const std::vector<Footprint>& one, const std::vector<Footprint>& other) {
  return std::any_of(one.begin(), one.end(), [&](const Footprint& a) {
    return std::any_of(other.begin(), other.end(), [&](const Footprint& b) { return cuda::conflict(a, b); });
  });
}

}  // namespace

std::vector<StreamChoice> choose_streams(const std::vector<std::vector<Footprint>>& steps, int most) {
  std::vector<StreamChoice> result(steps.size());
  std::vector<size_t> tails;                          // last step of each stream_at
  std::vector<std::vector<char>> done(steps.size());  // steps that have ended before a step begins, and itself
  for (size_t step = 0; step < steps.size(); ++step) {
    std::vector<char>& before = done[step];
    before.assign(steps.size(), 0);
    std::vector<size_t> needs;  // direct ones, the latest first
    for (size_t other = step; other-- > 0;) {
      if (before[other]) continue;
      if (!conflict(steps[step], steps[other])) continue;
      needs.push_back(other);
      for (size_t at = 0; at <= other; ++at) before[at] |= done[other][at];
    }
    before[step] = 1;
    StreamChoice& own = result[step];
    own.stream_at = -1;
    for (const size_t need : needs)
      if (own.stream_at < 0 && tails[static_cast<size_t>(result[need].stream_at)] == need)
        own.stream_at = result[need].stream_at;
    if (own.stream_at < 0 && static_cast<int>(tails.size()) < most) {
      own.stream_at = static_cast<int>(tails.size());
      tails.push_back(step);
    } else if (own.stream_at < 0) {
      // Behind the step that came longest ago.
      own.stream_at = static_cast<int>(std::min_element(tails.begin(), tails.end()) - tails.begin());
      const std::vector<char>& tail = done[tails[static_cast<size_t>(own.stream_at)]];
      for (size_t at = 0; at < step; ++at) before[at] |= tail[at];
      std::erase_if(needs, [&](size_t need) { return tail[need] != 0; });
    }
    for (const size_t need : needs)
      if (result[need].stream_at != own.stream_at) own.waits.push_back(need);
    tails[static_cast<size_t>(own.stream_at)] = step;
  }
  return result;
}

}  // namespace tenon::cuda
