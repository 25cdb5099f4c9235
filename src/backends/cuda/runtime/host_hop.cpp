// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/host_hop.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/control_flow.h"
#include "ops/op.h"

namespace tenon::cuda {
namespace {

void wait(Stream stream) { check(driver().StreamSynchronize(stream), "cuStreamSynchronize"); }

void fetch(std::byte* to, Address from, size_t bytes, Stream stream) {
  check(driver().MemcpyDtoHAsync(to, from, bytes, stream), "cuMemcpyDtoH");
}

size_t dense_bytes(const Operand& operand) {
  return operand ? static_cast<size_t>(operand.dims.elements()) * size_of(operand.dtype) : 0;
}

class BranchHop : public HostHop {
 public:
  BranchHop(const Problem& problem, const std::vector<std::unique_ptr<Body>>& bodies, std::vector<Address> inputs,
            const std::vector<Address>& outputs, const Launch& launch)
      : condition_(inputs[0]), read_(1), memory_(std::max(bodies[0]->bytes(), bodies[1]->bytes()), "a body") {
    inputs.erase(inputs.begin());
    for (const size_t at : {0, 1}) {
      const Body& body = *bodies[at];
      Body::Places places{memory_.address(), inputs, {}};
      for (size_t out = 0; out < outputs.size(); ++out)
        if (problem.outputs[out] && body.can_aim(out)) body.aim(places, out, outputs[out]);
      recordings_[at] = Recording(launch.stream, [&] {
        body.enqueue(places, launch);
        for (size_t out = 0; out < outputs.size(); ++out)
          if (problem.outputs[out]) copy(outputs[out], body.source(out, places), body.bytes_of(out), launch.stream);
      });
    }
  }

  void run(Stream stream) override {
    fetch(read_.data(), condition_, 1, stream);
    wait(stream);
    const Recording& taken = recordings_[*read_.data() != std::byte{0} ? 0 : 1];
    if (taken) taken.replay(stream);
  }
  size_t bytes() const override { return memory_.bytes(); }

 private:
  Address condition_;
  PinnedBuffer read_;
  Buffer memory_;
  std::array<Recording, 2> recordings_;
};

/// A loop of carried values alone, which lie in one place from round to round.
class LoopHop : public HostHop {
 public:
  LoopHop(const Problem& problem, const Body& body, std::vector<Address> inputs, std::vector<Address> outputs,
          const Launch& launch)
      : problem_(problem),
        form_(*ops::loop_form(*problem.node)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        read_(4 * sizeof(int64_t)) {
    size_t end = 2 * sizeof(int64_t);  // the round and the condition
    const auto take = [&end](size_t bytes) {
      const size_t begin = (end + 255) / 256 * 256;
      end = begin + bytes;
      return begin;
    };
    std::vector<size_t> begins;
    for (size_t at = 0; at < form_.carried; ++at) begins.push_back(take(bytes(at)));
    const size_t body_at = take(body.bytes());
    memory_ = Buffer(end, "a body");
    for (const size_t begin : begins) state_.push_back(memory_.address() + begin);
    Body::Places places{memory_.address() + body_at, inputs_, {}};
    places.inputs[0] = memory_.address(), places.inputs[1] = memory_.address() + sizeof(int64_t);
    for (size_t at = 0; at < form_.carried; ++at) places.inputs[form_.first_carried() + at] = state_[at];
    round_ = Recording(launch.stream, [&] {
      body.enqueue(places, launch);
      for (size_t at = 0; at < form_.carried; ++at)
        copy(state_[at], body.source(form_.first_result() + at, places), bytes(at), launch.stream);
      fetch(read_.data() + goes_on, body.source(0, places), 1, launch.stream);
    });
  }

  size_t bytes() const override { return memory_.bytes(); }
  void run(Stream stream) override {
    ops::Rounds limit;
    const int64_t rounds = begin(stream);
    for (size_t at = 0; at < form_.carried; ++at)
      copy(state_[at], inputs_[form_.first_carried() + at], bytes(at), stream);
    for (int64_t round = 0; round < rounds && read_.data()[goes_on] != std::byte{0}; ++round) {
      limit.next(*problem_.node);
      const int64_t entering[] = {round, 1};
      std::memcpy(read_.data(), entering, sizeof entering);
      check(driver().MemcpyHtoDAsync(memory_.address(), read_.data(), sizeof entering, stream), "cuMemcpyHtoD");
      round_.replay(stream);
      wait(stream);
    }
    for (size_t at = 0; at < form_.carried; ++at)
      if (problem_.outputs[at]) copy(outputs_[at], state_[at], bytes(at), stream);
  }

 private:
  static constexpr size_t goes_on = 2 * sizeof(int64_t), trips = 3 * sizeof(int64_t);  // in what the host reads
  size_t bytes(size_t carried) const { return dense_bytes(problem_.inputs[form_.first_carried() + carried]); }

  /// Reads how many rounds there may be, and whether there is one.
  int64_t begin(Stream stream) {
    const Operand &count = problem_.inputs[0], &condition = problem_.inputs[1];
    read_.data()[goes_on] = std::byte{1};
    std::memset(read_.data() + trips, 0, sizeof(int64_t));
    const auto read = [&](const Operand& operand, size_t at, Address from) {
      if (operand.constant) std::memcpy(read_.data() + at, operand.constant.data(), operand.constant.bytes());
      else if (operand) fetch(read_.data() + at, from, dense_bytes(operand), stream);
    };
    read(count, trips, inputs_[0]), read(condition, goes_on, inputs_[1]);
    wait(stream);
    if (!count) return INT64_MAX;
    int64_t number;
    std::memcpy(&number, read_.data() + trips, sizeof number);
    return count.dtype == DType::i64 ? number : static_cast<int32_t>(number);
  }

  const Problem problem_;
  const ops::LoopForm form_;
  const std::vector<Address> inputs_, outputs_;
  PinnedBuffer read_;
  Buffer memory_;
  std::vector<Address> state_;
  Recording round_;
};

}  // namespace

std::unique_ptr<HostHop> make_host_hop(const Problem& problem, const std::vector<std::unique_ptr<Body>>& bodies,
                                       std::vector<Address> inputs, std::vector<Address> outputs,
                                       const Launch& launch) {
  if (ops::flow_of(problem.node->op) == ops::Flow::branch)
    return std::make_unique<BranchHop>(problem, bodies, std::move(inputs), outputs, launch);
  return std::make_unique<LoopHop>(problem, *bodies[0], std::move(inputs), std::move(outputs), launch);
}

}  // namespace tenon::cuda
