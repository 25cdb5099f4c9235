// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::max_pools {
namespace {

constexpr size_t most_windows = 4;
constexpr int64_t most_shared = 96 << 10;

/// As max_pools.cu has it, with its addresses and strides one behind the other for any count of windows.
template <size_t count>
struct Params {
  Address x, y[count];
  int64_t xs[3], ys[count][3];
  int groups;
};

/// Bytes of shared memory for so many channels.
int64_t shared_bytes(const Problem& problem, int channels) {
  const Operand& x = problem.inputs[0];
  const int64_t words = channels * (size_of(x.dtype) == 4 ? 4 : 2) / 4;
  return x.dims[1] * x.dims[2] * words * 4 * static_cast<int64_t>(1 + problem.outputs.size());
}

/// Channels that a block may make at once.
std::vector<int> vectors_of(const Problem& problem, const Properties& properties) {
  const Operand& x = problem.inputs[0];
  const int size = static_cast<int>(size_of(x.dtype));
  const int64_t most = std::min<int64_t>(most_shared, properties.shared_bytes);
  std::vector<int> list;
  for (const int bytes : {8, 4, 16}) {
    const int channels = bytes / size;
    const auto fits = [&](const Operand& operand) {
      bool all = operand.aligned && operand.strides[3] == 1;
      for (size_t at = 0; at < 3; ++at) all = all && operand.strides[at] % channels == 0;
      return all;
    };
    if (x.dims[3] % channels == 0 && fits(x) && std::all_of(problem.outputs.begin(), problem.outputs.end(), fits) &&
        shared_bytes(problem, channels) <= most)
      list.push_back(channels);
  }
  return list;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  const Operand& x = problem.inputs[0];
  if ((!is_real(x.dtype) && x.dtype != DType::u8) || x.dims.rank() != 4)
    return {Reason::shape, "the input", "four axes of f32, f16, bf16 or bytes"};
  if (problem.outputs.size() > most_windows || !std::all_of(problem.outputs.begin(), problem.outputs.end(),
                                                            [](const Operand& y) { return static_cast<bool>(y); }))
    return {Reason::absent, "an output"};
  if (x.dims.elements() == 0) return Reason::empty;
  if (x.dims.elements() >= int64_t{1} << 31) return Reason::too_large;
  return vectors_of(problem, properties).empty() ? Reason(Reason::not_contiguous, "channels") : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  const Operand& x = problem.inputs[0];
  std::string windows;
  for (const int64_t window : problem.node->integers("windows")) {
    if (!windows.empty()) windows += ",";
    windows += std::to_string(window);
  }
  std::vector<Tactic> list;
  for (const int channels : vectors_of(problem, properties))
    list.push_back({"maps of " + std::to_string(channels),
                    {source_from({"larger.cuh", "max_pools.cu"},
                                 {define_type("ELEMENT", x.dtype), define("H", x.dims[1]), define("W", x.dims[2]),
                                  define("COUNT", static_cast<int64_t>(problem.outputs.size())), "WINDOWS=" + windows,
                                  define("VEC", channels)})},
                    {channels}});
  return list;
}

template <size_t count>
class MaxPoolsStep : public Step {
 public:
  MaxPoolsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        grid_{0, 1, 1, 256, static_cast<int>(shared_bytes(problem, tactic.numbers[0]))},
        function_(device.function(tactic.sources[0], "max_pools", grid_.shared_bytes)) {
    const Operand& x = problem.inputs[0];
    std::copy_n(x.strides.begin(), 3, params_.xs);
    for (size_t at = 0; at < count; ++at) std::copy_n(problem.outputs[at].strides.begin(), 3, params_.ys[at]);
    const int64_t groups = x.dims[3] / tactic.numbers[0];
    params_.groups = static_cast<int>(groups);
    grid_.x = x.dims[0] * groups;
  }
  void enqueue(const Launch& at) const override {
    Params<count> params = params_;
    params.x = at.inputs[0];
    std::copy_n(at.outputs, count, params.y);
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Grid grid_;
  Function function_;
  Params<count> params_{};
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  switch (problem.outputs.size()) {
    case 2: return make_step<MaxPoolsStep<2>>(problem, device, tactic);
    case 3: return make_step<MaxPoolsStep<3>>(problem, device, tactic);
    default: return make_step<MaxPoolsStep<4>>(problem, device, tactic);
  }
}

const KernelRegistrar registered({"tenon:MaxPools", "maps", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::max_pools
