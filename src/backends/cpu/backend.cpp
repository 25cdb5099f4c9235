// SPDX-License-Identifier: Apache-2.0
#include "backends/backend.h"

#include <tenon/error.h>

#include <algorithm>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/limits.h"
#include "backends/cpu/device_query.h"
#include "backends/cpu/timer.h"
#include "backends/kernel.h"
#include "backends/sources.h"
#include "passes/pass.h"

namespace tenon::cpu::backend {
namespace {

using backends::Capabilities;
using backends::Goal;
using backends::Problem;
using backends::Reason;

/// Whether one thread alone may be the fastest.
bool is_small(const Problem& problem) {
  constexpr int64_t most_elements = 1 << 15;  // of all operands
  int64_t elements = 0;
  for (const auto* operands : {&problem.inputs, &problem.outputs})
    for (const backends::Operand& operand : *operands) elements += operand ? operand.dims.elements() : 0;
  return problem.threads > 1 && elements <= most_elements;
}

class CpuBackend : public backends::Backend {
 public:
  std::string name() const override { return "cpu"; }
  void require(const Device& device) const override {
    if (device.index == 0) return;
    throw Error(Code::usage, "there is no device " + device.str(), {.where = "--device", .hint = "give cpu"});
  }

  Capabilities capabilities(const Device&) const override {
    Capabilities can;
    can.isa = isa_name(detect_isa());
    can.fast_integers = has_int8_dot(active_isa());
    can.rounds_layers = has_bf16_dot(active_isa());
    can.blocks = can.parts = can.deconvolution_rows = true;
    return can;
  }

  void require(const Device&, Precision precision, const std::string& where) const override {
    if (precision == Precision::fp32 || precision == Precision::int8 || precision == Precision::best) return;
    if (precision == Precision::bf16) return require_bf16(where);
    if (precision == Precision::fp8)
      throw Error(Code::unsupported, "the CPU does not compute in fp8",
                  {.where = where,
                   .why = "that takes a GPU of compute capability 8.9 or later",
                   .hint = "give --device cuda, or --precision int8"});
    throw Error(Code::unsupported, "the CPU computes in fp32, bf16 and int8 only",
                {.where = where, .hint = "leave out --precision, or give fp32, bf16 or int8"});
  }

  std::vector<passes::PassRecord> lower(ir::Graph& graph, const Device&, const Goal&,
                                        const std::vector<std::string>& skip) const override {
    std::vector<passes::PassRecord> records = passes::lower_for_host(graph, skip);
    for (const char* pass : {"bias_columns", "fuse_attention"})
      if (std::find(skip.begin(), skip.end(), pass) == skip.end()) records.push_back(passes::run_pass(graph, pass));
    return records;
  }

  void take_over(ir::Graph& graph, const Device&) const override { passes::return_to_cpu(graph); }

  Goal retarget(ir::Graph&, const Goal& goal, Precision wanted, const std::vector<std::string>&) const override {
    Goal now = goal;
    if (wanted == Precision::bf16) require_bf16("--precision bf16");
    if (goal.precision == Precision::int8) return now;
    now.rounds_to_bf16 = wanted == Precision::bf16;
    now.precision = now.rounds_to_bf16 ? Precision::bf16 : Precision::fp32;
    return now;
  }

  std::span<const passes::GroupPattern> groups() const override {
    static const std::vector<passes::GroupPattern> patterns =
        passes::patterns_of([](const ir::OpId& op) { return backends::kernels_for(op).size() > 1; });
    return patterns;
  }

  backends::Goal host_goal(const backends::Goal& goal) const override { return goal; }
  /// Steps of an engine in INT8 add products in one rounding on every CPU, so that it gives the same bits everywhere,
  /// unless it was built on one that needs many instructions for that.
  void constrain(Problem& problem, const Goal& goal) const override {
    problem.strict = goal.strict;
    problem.fused = goal.precision == Precision::int8 && goal.isa != isa_name(Isa::portable);
    problem.bf16 = goal.rounds_to_bf16 || problem.node->has(backends::rounding);
  }

  std::string key(const Problem& problem, const Device*) const override { return backends::signature(problem); }

  std::vector<std::string> tactics(const Problem& problem, const Device&) const override {
    std::vector<std::string> names;
    for (const backends::Kernel* kernel : backends::kernels_for(problem.node->op))
      if (kernel != &backends::reference_kernel() && !backends::refusal(*kernel, problem))
        names.push_back(kernel->name);
    if (is_small(problem))
      for (size_t at = 0, count = names.size(); at < count; ++at) names.push_back(backends::alone(names[at]));
    return names;
  }

  std::vector<uint64_t> sources(const Problem& problem, const Device&,
                                std::span<const std::string> tactics) const override {
    std::vector<uint64_t> hashes;
    for (const std::string& tactic : tactics) {
      const backends::Kernel& kernel = backends::kernel_for(problem, tactic);
      const bool is_it = backends::tactic_for(problem, tactic) == tactic;
      hashes.push_back(is_it ? backends::source_hash(kernel.file, kernel.family) : 0);
    }
    return hashes;
  }

  std::string choose(const Problem& problem, const Device&, const std::string& tactic) const override {
    return backends::tactic_for(problem, tactic);
  }

  std::string choose_blocks(const Problem&, const std::vector<backends::Schedule>&, const Device&) const override {
    return "lockstep";
  }

  std::vector<backends::Refusal> refusals(const Problem& problem, const Device&) const override {
    std::vector<backends::Refusal> list;
    for (const backends::Kernel* kernel : backends::kernels_for(problem.node->op))
      if (const Reason reason = backends::refusal(*kernel, problem)) list.push_back({kernel->name, reason});
    return list;
  }

  std::optional<backends::WeightCache::Form> form(const Problem& problem, const std::string& tactic) const override {
    const backends::Kernel& kernel = backends::kernel_for(problem, tactic);
    return kernel.form ? std::optional(kernel.form(problem)) : std::nullopt;
  }

  std::vector<std::string> kernels(const std::string& op) const override {
    std::vector<std::string> names;
    for (const backends::Kernel* kernel : backends::kernels_for(op))
      if (kernel != &backends::reference_kernel()) names.push_back(kernel->name);
    return names;
  }

  backends::TimingPolicy timing() const override {
    return {.repeats = 5, .more_repeats = 10, .rounds = 3, .near = 1.25, .by_least = true};
  }

  std::unique_ptr<backends::TacticTimer> timer(const Device&, int threads) const override {
    return make_timer(threads);
  }

  std::shared_ptr<const backends::Compiled> compile(backends::Schedule schedule, ThreadPool&,
                                                    const backends::Compiled* like) const override {
    return std::make_shared<HostCompiled>(std::move(schedule), static_cast<const HostCompiled*>(like));
  }

  std::optional<backends::Limits> limits(const Device&, int threads) const override { return measure_limits(threads); }

  std::string device_query(nlohmann::ordered_json& facts) const override { return device_query_text(facts); }

 private:
  static void require_bf16(const std::string& where) {
    if (has_bf16_dot(active_isa())) return;
    throw Error(
        Code::unsupported, "this processor does not multiply bf16",
        {.where = where,
         .why = std::string("that takes AVX-512 with BF16, or AMX, and kernels are for ") + isa_name(active_isa()),
         .hint = "leave out --precision, or give fp32 or int8"});
  }
};

const CpuBackend instance;
const backends::BackendRegistrar registrar(instance, 2);

}  // namespace
}  // namespace tenon::cpu::backend
