// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp tell each other: shfl, vote, match, redux and the like. All members are there when it runs.
#include <algorithm>

#include "each.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

enum class Move { up, down, across, to };

/// Operands: the result, with PAIR whether its source was in range, the number, the lane and the range.
template <Move MOVE, bool PAIR>
void shuffle(Warp& w, const Instruction& i) {
  constexpr int first = PAIR ? 2 : 1;
  const uint32_t *a = w.lanes<uint32_t>(i.at[first]), *b = w.lanes<uint32_t>(i.at[first + 1]),
                 *c = w.lanes<uint32_t>(i.at[first + 2]);
  uint32_t results[lanes_of_warp], in_range[lanes_of_warp];
  for_lanes(w.active, [&](int l) {
    const int by = static_cast<int>(b[l] & 31), clamp = static_cast<int>(c[l] & 31),
              segments = static_cast<int>(c[l] >> 8 & 31);
    const int most = (l & segments) | (clamp & ~segments), least = l & segments;
    int from = l;
    if (MOVE == Move::up) from = l - by;
    if (MOVE == Move::down) from = l + by;
    if (MOVE == Move::across) from = l ^ by;
    if (MOVE == Move::to) from = least | (by & ~segments);
    const bool there = MOVE == Move::up ? from >= most : from <= most;
    if (!there) from = l;
    results[l] = a[from], in_range[l] = there ? all_lanes : 0;
  });
  for_lanes(w.active, [&](int l) {
    w.lanes<uint32_t>(i.at[0])[l] = results[l];
    if (PAIR) w.lanes<uint32_t>(i.at[1])[l] = in_range[l];
  });
}
template <Move MOVE>
Run shuffle_of(bool pair) {
  return pair ? shuffle<MOVE, true> : shuffle<MOVE, false>;
}

enum class Vote { all, any, same, ballot };

template <Vote VOTE>
void vote(Warp& w, const Instruction& i) {
  const uint32_t turned = i.offset ? all_lanes : 0, yes = (mask_of(w.lanes<uint32_t>(i.at[1])) ^ turned) & w.active;
  uint32_t result = yes;
  if (VOTE == Vote::all) result = yes == w.active ? all_lanes : 0;
  if (VOTE == Vote::any) result = yes ? all_lanes : 0;
  if (VOTE == Vote::same) result = yes == w.active || yes == 0 ? all_lanes : 0;
  for_lanes(w.active, [&](int l) { w.lanes<uint32_t>(i.at[0])[l] = result; });
}

template <class T>
void match_any(Warp& w, const Instruction& i) {
  const T* a = w.lanes<T>(i.at[1]);
  uint32_t results[lanes_of_warp] = {};
  for_lanes(w.active, [&](int l) {
    for (int other = 0; other < lanes_of_warp; ++other)
      if ((w.active >> other & 1) && a[other] == a[l]) results[l] |= 1u << other;
  });
  for_lanes(w.active, [&](int l) { w.lanes<uint32_t>(i.at[0])[l] = results[l]; });
}

template <class T, class Op>
void reduce(Warp& w, const Instruction& i) {
  const T* a = w.lanes<T>(i.at[1]);
  T result = a[std::countr_zero(w.active)];
  for (uint32_t lanes = w.active & (w.active - 1); lanes; lanes &= lanes - 1)
    result = Op::of(result, a[std::countr_zero(lanes)]);
  for_lanes(w.active, [&](int l) { w.lanes<T>(i.at[0])[l] = result; });
}
struct And {
  static uint32_t of(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static uint32_t of(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static uint32_t of(uint32_t a, uint32_t b) { return a ^ b; }
};

void active_mask(Warp& w, const Instruction& i) {
  for_lanes(w.active, [&](int l) { w.lanes<uint32_t>(i.at[0])[l] = w.active; });
}
void elect(Warp& w, const Instruction& i) {
  const int first = std::countr_zero(w.active);
  for_lanes(w.active, [&](int l) {
    w.lanes<uint32_t>(i.at[0])[l] = static_cast<uint32_t>(first);
    w.lanes<uint32_t>(i.at[1])[l] = l == first ? all_lanes : 0;
  });
}

Run reductions(const Words& words) {
  const bool is_signed = words.back() == "s32";
  if (has(words, "add")) return reduce<uint32_t, Sum>;
  if (has(words, "min")) return is_signed ? reduce<int32_t, Least> : reduce<uint32_t, Least>;
  if (has(words, "max")) return is_signed ? reduce<int32_t, Most> : reduce<uint32_t, Most>;
  if (has(words, "and")) return reduce<uint32_t, And>;
  if (has(words, "or")) return reduce<uint32_t, Or>;
  return has(words, "xor") ? reduce<uint32_t, Xor> : Run{};
}

}  // namespace

/// "shfl2" is shfl with a predicate as a second result.
Run select_warp_wide(const Words& words) {
  const std::string& op = words[0];
  if (op == "activemask") return active_mask;
  if (words.size() < 2) return nullptr;
  if (op == "elect") return elect;
  if (op == "redux") return reductions(words);
  if (op == "match" && words[1] == "any") return words.back() == "b64" ? match_any<uint64_t> : match_any<uint32_t>;
  if (op == "shfl" || op == "shfl2") {
    if (has(words, "up")) return shuffle_of<Move::up>(op == "shfl2");
    if (has(words, "down")) return shuffle_of<Move::down>(op == "shfl2");
    return has(words, "bfly") ? shuffle_of<Move::across>(op == "shfl2") : shuffle_of<Move::to>(op == "shfl2");
  }
  if (op != "vote") return nullptr;
  if (has(words, "all")) return vote<Vote::all>;
  if (has(words, "any")) return vote<Vote::any>;
  return has(words, "uni") ? vote<Vote::same> : vote<Vote::ballot>;
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
