// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::box_head {
namespace {

constexpr size_t most_scales = 8;
constexpr int64_t most_bins = 64, shared_bytes = 40 * 1024, tile = 64;

/// As box_head.cu has it for S scales: its arrays are of S elements.
struct Layout {
  size_t scales;
  size_t words() const { return scales * 2 + 5; }
  size_t bytes() const { return (words() * 8 + (scales * 3 + 2) * 4 + 7) / 8 * 8; }
};

size_t scales_of(const Problem& problem) { return static_cast<size_t>(problem.node->integer("scales", 0)); }

Reason refuses(const Problem& problem, const Properties&) {
  const size_t scales = scales_of(problem);
  if (scales > most_scales) return {Reason::too_many, most_scales, "scales"};
  const DType type = problem.inputs[0].dtype;
  if (!is_real(type)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (problem.outputs[0].dtype != DType::f32 || !problem.outputs[0].dense())
    return {Reason::shape, "the result", "dense f32"};
  for (size_t at = 0; at < 2 * scales; ++at)
    if (problem.inputs[at].dtype != type || !problem.inputs[at].dense())
      return {Reason::shape, "the logits", "one type, dense"};
  for (size_t at = 2 * scales; at < problem.inputs.size(); ++at)
    if (problem.inputs[at].dtype != DType::f32 || !problem.inputs[at].dense())
      return {Reason::shape, "the places", "dense f32"};
  if (problem.inputs[2 * scales].dims.elements() > most_bins) return {Reason::too_many, most_bins, "bins"};
  const int64_t pitch = problem.inputs[scales].dims.back() + 4;
  if (pitch * tile * static_cast<int64_t>(size_of(type)) > shared_bytes) return Reason::no_tile;
  return problem.outputs[0].dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

/// Elements a load, where rows of `row` elements begin at multiples of them.
int64_t vector_of(const Problem& problem, size_t first, size_t last, int64_t row) {
  auto vector = static_cast<int64_t>(16 / size_of(problem.inputs[0].dtype));
  for (size_t at = first; at < last; ++at)
    if (!problem.inputs[at].aligned) vector = 1;
  while (row % vector) vector /= 2;
  return vector;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t scales = scales_of(problem);
  const int64_t bins = problem.inputs[2 * scales].dims.elements(), classes = problem.inputs[scales].dims.back();
  Source source{"box_head.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype),
                    define("SCALES", static_cast<int64_t>(scales)),
                    define("BINS", bins),
                    define("CLASSES", classes),
                    define("BV", vector_of(problem, 0, scales, bins)),
                    define("KV", vector_of(problem, scales, 2 * scales, classes))};
  return {{"box head", {source}, {}}};
}

class BoxHeadStep : public Step {
 public:
  BoxHeadStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "box_head")), layout_{scales_of(problem)} {
    numbers_.resize(layout_.scales * 3 + 2);
    int32_t begin = 0, tiles = 0;
    for (size_t at = 0; at < layout_.scales; ++at) {
      const auto places = static_cast<int32_t>(problem.inputs[at].dims[1]);
      numbers_[at] = places;
      numbers_[layout_.scales + at] = begin;
      numbers_[2 * layout_.scales + at] = tiles;
      begin += places, tiles += static_cast<int32_t>(ceil_div(places, tile));
    }
    numbers_[3 * layout_.scales] = begin, numbers_[3 * layout_.scales + 1] = tiles;
    params_.resize(layout_.bytes());
    grid_ = {problem.inputs[0].dims[0] * tiles, 1, 1, 256, 0};
  }
  void enqueue(const Launch& at) const override {
    std::vector<std::byte> params = params_;
    auto* words = reinterpret_cast<Address*>(params.data());
    std::copy_n(at.inputs, layout_.words() - 1, words);
    words[layout_.words() - 1] = at.outputs[0];
    std::copy(numbers_.begin(), numbers_.end(), reinterpret_cast<int32_t*>(words + layout_.words()));
    launch_bytes(device_, function_, grid_, at, params.data());
  }

 private:
  Device& device_;
  Function function_;
  Layout layout_;
  std::vector<int32_t> numbers_;
  std::vector<std::byte> params_;
  Grid grid_;
};

const KernelRegistrar registered({"tenon:BoxHead", "box head", 1, refuses, tactics, make_step<BoxHeadStep>});

}  // namespace
}  // namespace tenon::cuda::box_head
