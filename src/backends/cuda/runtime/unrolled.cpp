// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "backends/cuda/runtime/body.h"
#include "ops/control_flow.h"

namespace tenon::cuda {
namespace {

/// All rounds of a loop, one behind the other. What a round gives the next lies in two places by turns; of the last
/// round it is the node's output.
class UnrolledLoop : public Step {
 public:
  UnrolledLoop(const Problem& problem, const backends::Schedule& body, Device& device, ThreadPool& thread_pool)
      : form_(*ops::loop_form(*problem.node)), rounds_(rounds_of(problem)), body_(body, device, thread_pool) {
    for (size_t at = 0; at < form_.carried; ++at) {
      absent_.push_back(!problem.outputs[at]);
      for (const size_t place : {0, 1}) places_.push_back(take(place == 1 || absent_[at] ? bytes(at) : 0));
      const int input = body_.input_of(result(at));
      stays_.push_back(body_.is_constant(result(at)) || input >= static_cast<int>(form_.first_capture()) ||
                       input == static_cast<int>(form_.first_carried() + at));
    }
    for (size_t at = 0; at < form_.scanned; ++at) {
      const Operand& stack = problem.inputs[form_.first_scanned() + at];
      const auto all = static_cast<size_t>(stack.dims.elements()) * size_of(stack.dtype);
      slices_.push_back(rounds_ > 0 ? all / static_cast<size_t>(rounds_) : 0);
      slots_.push_back(take(slices_.back()));
    }
    for (size_t at = 0; at < form_.scans; ++at) absent_.push_back(!problem.outputs[form_.carried + at]);
    body_at_ = take(0);
    if (!form_.counts) return;
    // The number of each round, and behind them a condition that holds.
    std::vector<int64_t> numbers;
    for (int64_t round = 0; round < rounds_; ++round) numbers.push_back(round);
    numbers.push_back(1);
    numbers_ = Buffer::kept(numbers.size() * sizeof(int64_t));
    numbers_.upload(numbers.data(), numbers.size() * sizeof(int64_t));
  }

  size_t workspace_bytes() const override { return body_at_ + body_.bytes(); }

  void enqueue(const Launch& launch) const override {
    std::vector<Address> now, next(form_.carried);
    for (size_t at = 0; at < form_.carried; ++at) now.push_back(launch.inputs[form_.first_carried() + at]);
    Body::Places places{launch.workspace + body_at_, std::vector<Address>(body_.schedule().graph.inputs.size()), {}};
    for (size_t at = form_.first_capture(); at < places.inputs.size(); ++at) places.inputs[at] = launch.inputs[at];
    for (int64_t round = 0; round < rounds_; ++round) {
      enter(launch, round, now, places);
      body_.enqueue(places, launch);
      for (size_t at = 0; at < form_.scans; ++at)
        if (!absent_[form_.carried + at])
          copy(place_of_scan(launch, at, round), body_.source(scan(at), places), body_.bytes_of(scan(at)),
               launch.stream);
      for (size_t at = 0; at < form_.carried; ++at) {
        next[at] = body_.source(result(at), places);
        if (stays_[at] || body_.can_aim(result(at))) continue;
        copy(place_of(launch, at, round), next[at], bytes(at), launch.stream);
        next[at] = place_of(launch, at, round);
      }
      now = next;
    }
    for (size_t at = 0; at < form_.carried; ++at)
      if (!absent_[at]) copy(launch.outputs[at], now[at], bytes(at), launch.stream);
  }

 private:
  size_t result(size_t carried) const { return form_.first_result() + carried; }
  size_t scan(size_t at) const { return form_.first_scan() + at; }
  size_t bytes(size_t carried) const { return body_.bytes_of(result(carried)); }
  size_t take(size_t bytes) {
    const size_t begin = end_;
    end_ += (bytes + boundary - 1) / boundary * boundary;
    return begin;
  }
  Address place_of(const Launch& launch, size_t carried, int64_t round) const {
    const auto turn = static_cast<size_t>((rounds_ - 1 - round) & 1);
    if (turn == 0 && !absent_[carried]) return launch.outputs[carried];
    return launch.workspace + places_[2 * carried + turn];
  }
  Address place_of_scan(const Launch& launch, size_t at, int64_t round) const {
    const int64_t entry = form_.scan_axes[at].reversed ? rounds_ - 1 - round : round;
    return launch.outputs[form_.carried + at] + static_cast<Address>(entry) * body_.bytes_of(scan(at));
  }

  void enter(const Launch& launch, int64_t round, const std::vector<Address>& now, Body::Places& places) const {
    if (form_.counts) {
      places.inputs[0] = numbers_.address() + static_cast<Address>(round) * sizeof(int64_t);
      places.inputs[1] = numbers_.address() + static_cast<Address>(rounds_) * sizeof(int64_t);
    }
    for (size_t at = 0; at < form_.carried; ++at) places.inputs[form_.first_carried() + at] = now[at];
    for (size_t at = 0; at < form_.scanned; ++at) {
      const size_t input = form_.first_scanned() + at;
      const int64_t entry = form_.scanned_axes[at].reversed ? rounds_ - 1 - round : round;
      places.inputs[input] = launch.inputs[input] + static_cast<Address>(entry) * slices_[at];
      if (places.inputs[input] % vector_bytes == 0) continue;
      copy(launch.workspace + slots_[at], places.inputs[input], slices_[at], launch.stream);
      places.inputs[input] = launch.workspace + slots_[at];
    }
    // A value that is scanned and carried, too, is written to the scan, where the next round reads it.
    places.aimed.clear();
    for (size_t at = 0; at < form_.carried; ++at)
      if (body_.can_aim(result(at))) body_.aim(places, result(at), place_of(launch, at, round));
    for (size_t at = 0; at < form_.scans; ++at)
      if (!absent_[form_.carried + at] && body_.can_aim(scan(at)) &&
          place_of_scan(launch, at, round) % vector_bytes == 0)
        body_.aim(places, scan(at), place_of_scan(launch, at, round));
  }

  const ops::LoopForm form_;
  const int64_t rounds_;
  Body body_;
  std::vector<char> absent_, stays_;  // outputs of the node; carried values that a round leaves where they are
  std::vector<size_t> places_, slices_, slots_;
  size_t end_ = 0, body_at_ = 0;
  Buffer numbers_;
};

}  // namespace

std::unique_ptr<Step> make_unrolled(const Problem& problem, const backends::Schedule& body, Device& device,
                                    ThreadPool& thread_pool) {
  return std::make_unique<UnrolledLoop>(problem, body, device, thread_pool);
}

}  // namespace tenon::cuda
