// SPDX-License-Identifier: Apache-2.0
#include "backends/backend.h"

#include <tenon/error.h>

#include <map>

#include "backends/cuda/runtime/body.h"
#include "backends/cuda/runtime/custom_op.h"
#include "backends/cuda/runtime/executable.h"
#include "backends/cuda/runtime/kernel.h"
#include "backends/cuda/runtime/kernel_pack.h"
#include "backends/cuda/runtime/management.h"
#include "backends/cuda/runtime/device_query.h"
#include "backends/cuda/runtime/timer.h"

namespace tenon::cuda::backend {
namespace {

using backends::Capabilities;
using backends::Goal;

constexpr int least_for_float8 = 89;       // compute capability 8.9 and later multiply e4m3
constexpr int least_for_weight_only = 80;  // mma.sync of bf16 multiplies weights that stay integers

bool computes_in_16_bits(Precision precision) {
  return precision == Precision::fp16 || precision == Precision::bf16 || is_quantised(precision);
}

class CudaBackend : public backends::Backend {
 public:
  std::string name() const override { return "cuda"; }
  void require(const tenon::Device& device) const override { Device::get(device.index); }
  Capabilities capabilities(const tenon::Device& device) const override {
    Capabilities can;
    if (has(device)) can.isa = properties(device).name;
    can.floats = Precision::fp16;
    can.host_memory = can.observable = false;
    can.concurrent = can.parts = can.compiles = can.blocks = true;
    return can;
  }

  void require(const tenon::Device& device, Precision precision, const std::string& where) const override {
    if (precision != Precision::fp8 || properties(device).capability() >= least_for_float8) return;
    throw Error(Code::unsupported, "this GPU does not compute in fp8",
                {.where = where,
                 .why = "that takes a GPU of compute capability 8.9 or later",
                 .hint = "give --precision int8 or fp16"});
  }

  std::vector<passes::PassRecord> lower(ir::Graph& graph, const tenon::Device& device, const Goal& goal,
                                        const std::vector<std::string>& skip) const override {
    std::vector<passes::PassRecord> records;
    const auto note = [&](std::vector<passes::PassRecord> more) {
      records.insert(records.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    note(passes::leave_host(graph, weight_only(device, goal.strict), skip));
    if (properties(device).capability() >= least_for_float8) note(passes::lower_floats(graph, skip));
    note(passes::lower(graph, skip));
    note(passes::adapt_to_gpu(graph, skip));
    note(shape_for(goal.precision, graph, skip));
    return records;
  }

  void take_over(ir::Graph& graph, const tenon::Device& device) const override {
    passes::leave_host(graph, weight_only(device, false));
  }

  Goal retarget(ir::Graph& graph, const Goal& goal, Precision wanted,
                const std::vector<std::string>& skip) const override {
    const bool narrow = wanted == Precision::fp16 || wanted == Precision::bf16 || wanted == Precision::best;
    const bool wide = goal.precision == Precision::fp32 || goal.precision == Precision::tf32;
    Goal now = goal;
    passes::adapt_to_gpu(graph, skip);
    if (wide && narrow) now.precision = wanted == Precision::bf16 ? Precision::bf16 : Precision::fp16;
    else if (goal.precision == Precision::fp32 && wanted == Precision::tf32) now.precision = Precision::tf32;
    // What is in 16 bits already is left as it is, but for attention.
    shape_for(wide ? now.precision : Precision::fp32, graph, skip);
    return now;
  }

  std::span<const passes::GroupPattern> groups() const override {
    static const std::vector<passes::GroupPattern> patterns = passes::patterns_of(has_kernel);
    return patterns;
  }

  void constrain(Problem& problem, const Goal& goal) const override {
    problem.threads = 0;
    problem.strict = goal.strict;
    problem.tf32 = goal.precision == Precision::tf32;
    problem.vendor = goal.vendor;
  }

  std::string key(const Problem& problem, const tenon::Device* device) const override {
    const std::string end = (problem.vendor ? " | " : " own| ") + backends::signature(problem);
    return device ? properties(*device).name + end : end;
  }

  std::vector<std::string> tactics(const Problem& problem, const tenon::Device& device) const override {
    std::vector<std::string> names;
    for (Choice& choice : choices(problem, properties(device))) names.push_back(std::move(choice.tactic.name));
    return names;
  }

  std::vector<uint64_t> sources(const Problem& problem, const tenon::Device& device,
                                std::span<const std::string> tactics) const override {
    std::map<std::string, uint64_t> known;
    for (const Choice& choice : choices(problem, properties(device))) known[choice.tactic.name] = source_of(choice);
    std::vector<uint64_t> hashes;
    for (const std::string& tactic : tactics) hashes.push_back(known[tactic]);
    return hashes;
  }

  std::string choose(const Problem& problem, const tenon::Device& device, const std::string& tactic) const override {
    return cuda::choose(problem, properties(device), tactic).tactic.name;
  }

  std::string choose_blocks(const Problem& problem, const std::vector<backends::Schedule>& blocks,
                            const tenon::Device&) const override {
    return cuda::choose_blocks(problem, blocks);
  }

  std::vector<backends::Refusal> refusals(const Problem& problem, const tenon::Device& device) const override {
    return refused(problem, properties(device));
  }

  std::vector<std::string> kernels(const std::string& op) const override { return kernel_names(op); }

  backends::TimingPolicy timing() const override {
    return {.repeats = 1, .more_repeats = 6, .rounds = 1, .near = 1.25, .usual_seconds = 0.004};
  }

  std::unique_ptr<backends::TacticTimer> timer(const tenon::Device& device, int) const override {
    return make_timer(device.index);
  }

  std::shared_ptr<const backends::Compiled> compile(backends::Schedule schedule, ThreadPool& threads,
                                                    const backends::Compiled*) const override {
    return std::make_shared<DeviceCompiled>(std::move(schedule), threads);
  }

  std::string device_query(nlohmann::ordered_json& facts) const override { return device_query_text(facts); }
  std::unique_ptr<backends::Meter> meter(const tenon::Device& device) const override {
    return make_meter(device.index);
  }
  void add_custom_op(const tenon_custom_op& op) const override { cuda::add_custom_op(op); }
  backends::KernelCount export_kernels(const std::string& path) const override { return cuda::export_kernels(path); }
  backends::KernelCount import_kernels(const std::string& path) const override { return cuda::import_kernels(path); }

 private:
  static const Properties& properties(const tenon::Device& device) { return Device::get(device.index).properties(); }

  static passes::WeightOnly weight_only(const tenon::Device& device, bool strict) {
    const bool kept = !strict && properties(device).capability() >= least_for_weight_only;
    return kept ? passes::WeightOnly::kept : passes::WeightOnly::in_f32;
  }

  static std::vector<passes::PassRecord> shape_for(Precision precision, ir::Graph& graph,
                                                   const std::vector<std::string>& skip) {
    if (computes_in_16_bits(precision))
      return passes::cast_to_16_bits(graph, precision == Precision::bf16 ? DType::bf16 : DType::f16, skip);
    if (precision == Precision::tf32) return passes::round_products(graph, skip);
    return passes::join_attention(graph, skip);
  }
};

const CudaBackend instance;
const backends::BackendRegistrar registrar(instance, 1);

}  // namespace
}  // namespace tenon::cuda::backend
