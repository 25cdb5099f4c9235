// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/nms.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

// Areas are asked for first, as most boxes do not meet: the quotient, which takes longest, is for those that do.
TENON_INLINE bool covers(const KeptBoxes& kept, const KeptBoxes::Bin& bin, const Box& box, float limit) {
  const Vec none = zero(), limits = set1(limit), area = set1(box.area);
  const Vec top = set1(box.top), left = set1(box.left), bottom = set1(box.bottom), right = set1(box.right);
  for (int64_t at = bin.begin; at < bin.end; at += kLanes) {
    const Vec height = sub(min(load(kept.bottom + at), bottom), max(load(kept.top + at), top));
    const Vec width = sub(min(load(kept.right + at), right), max(load(kept.left + at), left));
    const Vec other = load(kept.area + at);
    const Vec met = select_less(none, height, select_less(none, width, other, none), none);
    if (!any_less(none, met)) continue;
    const Vec both = mul(height, width);
    const Vec share = div(both, sub(add(area, other), both));
    if (any_less(limits, select_less(none, met, share, none))) return true;
  }
  return false;
}

// Boxes that cover this one begin near it: their bins come first.
bool covered(const KeptBoxes& kept, int64_t first, int64_t own, int64_t last, const Box& box, float start,
             float limit) {
  if (!(box.area > 0)) return false;
  for (int64_t bin = own; bin <= last; ++bin)
    if (covers(kept, kept.bins[bin], box, limit)) return true;
  for (int64_t bin = own; bin-- > first;)
    if (kept.bins[bin].reach > start && covers(kept, kept.bins[bin], box, limit)) return true;
  return false;
}

}  // namespace

extern const NmsOps nms_table = {covered};

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
