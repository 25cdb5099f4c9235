// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/kernel.h"

#include <algorithm>
#include <map>
#include <span>

#include "backends/sources.h"
#include "base/hash.h"

#include "ops/op.h"

namespace tenon::cuda {
namespace {

std::multimap<std::string, Kernel>& registry() {
  static std::multimap<std::string, Kernel> kernels;
  return kernels;
}

std::vector<const Kernel*> kernels_for(const std::string& op) {
  std::vector<const Kernel*> kernels;
  const auto add = [&](const std::string& name) {
    const auto [begin, end] = registry().equal_range(name);
    for (auto at = begin; at != end; ++at) kernels.push_back(&at->second);
  };
  add(op);
  if (const ops::OpDef* found = ops::find(op); found && found->formula) add(backends::any_expression);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel* a, const Kernel* b) { return a->priority > b->priority; });
  return kernels;
}

thread_local int event_waits = 0;

bool has_type(const Problem& problem, DType type) {
  const auto is_it = [&](const Operand& operand) { return operand.dtype == type; };
  return std::any_of(problem.inputs.begin(), problem.inputs.end(), is_it) ||
         std::any_of(problem.outputs.begin(), problem.outputs.end(), is_it);
}

/// The 16-bit float of kernels that have one is bf16 where an operand is.
void name_float16(const Problem& problem, Tactic& tactic) {
  if (!has_type(problem, DType::bf16)) return;
  for (Source& source : tactic.sources)
    if (std::find(source.defines.begin(), source.defines.end(), "BF16=1") == source.defines.end())
      source.defines.push_back("BF16=1");
}

/// The kernel's own reason, but for what no kernel can.
Reason refusal(const Kernel& kernel, const Problem& problem, const Properties& properties) {
  if (properties.capability() < 89 && has_type(problem, DType::f8e4m3fn)) return {Reason::capability, "e4m3", "8.9"};
  return kernel.refuses(problem, properties);
}

bool nothing_to_do(const Problem& problem) {
  for (const Operand& operand : problem.outputs)
    if (operand && operand.dims.elements() > 0) return false;
  return true;
}

}  // namespace

KernelRegistrar::KernelRegistrar(Kernel kernel, const char* file) {
  kernel.file = file;
  const std::string op = kernel.op;
  registry().emplace(op, std::move(kernel));
}

KernelRegistrar::KernelRegistrar(std::initializer_list<const char*> ops, Kernel kernel, const char* file) {
  kernel.file = file;
  for (const char* op : ops) {
    kernel.op = op;
    registry().emplace(op, kernel);
  }
}

bool has_kernel(const ir::OpId& op) { return registry().contains(op.str()); }

std::vector<std::string> kernel_names(const std::string& op) {
  std::vector<std::string> names;
  for (const Kernel* kernel : kernels_for(op)) names.push_back(kernel->name);
  return names;
}

std::vector<Choice> choices(const Problem& problem, const Properties& properties) {
  std::vector<Choice> all;
  if (nothing_to_do(problem)) return all;
  const auto add = [&](const std::string& op) {
    for (const Kernel* kernel : kernels_for(op))
      if (!refusal(*kernel, problem, properties))
        for (Tactic& tactic : kernel->tactics(problem, properties)) {
          name_float16(problem, tactic);
          all.push_back({kernel, std::move(tactic)});
        }
  };
  add(problem.node->op);
  if (all.empty()) add(any_view);
  return all;
}

Choice choose(const Problem& problem, const Properties& properties, const std::string& name) {
  std::vector<Choice> all = choices(problem, properties);
  if (all.empty()) return {};
  for (Choice& choice : all)
    if (choice.tactic.name == name) return std::move(choice);
  return std::move(all.front());
}

uint64_t source_of(const Choice& choice) {
  const uint64_t host = backends::source_hash(choice.kernel->file, "");
  if (host == 0) return 0;
  Hasher hasher;
  const auto add = [&](std::string_view text) {
    const size_t size = text.size();
    hasher.add(std::as_bytes(std::span(&size, 1)));
    hasher.add(std::as_bytes(std::span(text)));
  };
  hasher.add(std::as_bytes(std::span(&host, 1)));
  for (const Source& source : choice.tactic.sources) {
    add(source.file);
    for (const std::string& define : source.defines) add(define);
    add(text_with_headers(source));
  }
  return hasher.value();
}

bool fits_workspace(const Step& step) {
  const int64_t limit = limits_in_force().workspace_bytes;
  return limit == 0 || step.workspace_bytes() <= static_cast<size_t>(limit);
}

std::vector<backends::Refusal> refused(const Problem& problem, const Properties& properties) {
  std::vector<backends::Refusal> list;
  for (const Kernel* kernel : kernels_for(problem.node->op))
    if (const Reason reason = refusal(*kernel, problem, properties)) list.push_back({kernel->name, reason});
  return list;
}

std::string refusals(const Problem& problem, const Properties& properties) {
  std::string text;
  for (const backends::Refusal& refusal : refused(problem, properties))
    text += (text.empty() ? "" : "; ") + refusal.kernel + ": " + refusal.reason.text();
  return text.empty() ? Reason(Reason::no_kernel, "GPU").text() : text;
}

void launch_bytes(const Device& device, Function function, const Grid& grid, const Launch& at, void* params) {
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(grid.x);
  config.grid_y = static_cast<unsigned>(grid.y);
  config.grid_z = static_cast<unsigned>(grid.z);
  config.block_x = static_cast<unsigned>(grid.threads);
  config.block_y = config.block_z = 1;
  config.shared_bytes = static_cast<unsigned>(grid.shared_bytes);
  config.stream = at.stream;
  LaunchAttribute attribute{};
  attribute.id = constants::launch_programmatic_serialization;
  attribute.value = 1;
  if (device.properties().capability() >= 90 && event_waits == 0)
    config.attributes = &attribute, config.attribute_count = 1;
  Breadcrumb breadcrumb = at.breadcrumb;
  void* arguments[] = {&breadcrumb, params};
  check(driver().LaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

EventWait::EventWait() { ++event_waits; }
EventWait::~EventWait() { --event_waits; }

const char* type_name(DType type) {
  switch (type) {
    case DType::f32: return "float";
    case DType::f16: return "half";
    case DType::bf16: return "bf16";
    case DType::u8: return "u8";
    case DType::i8: return "i8";
    case DType::i32: return "int";
    case DType::i64: return "i64";
    case DType::f8e4m3fn: return "e4m3";
    default: return "";
  }
}

}  // namespace tenon::cuda
