// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace tenon::ptx_emulator {
namespace {

thread_local std::vector<Work*> recorded;  // while this thread records: what goes on behind the last comes first

void make_ready(Kernel& kernel) {
  if (kernel.code) return;
  std::map<std::string, uint64_t> variables;
  for (const auto& [name, bytes] : kernel.image->constants) variables[name] = reinterpret_cast<uint64_t>(bytes.data());
  kernel.code = std::make_unique<Code>(make_code(kernel.image->program, *kernel.function, variables));
  // Thousands of kernels may be loaded.
  kernel.function->body = {}, kernel.function->registers = {};
}

}  // namespace

const Card* card_that_runs() {
  static const std::unique_ptr<const Card> found = []() -> std::unique_ptr<Card> {
    const char* asked = std::getenv("TENON_PTX_EMULATOR_RUN");
    if (!asked) return nullptr;
    int major = 0, minor = 0;
    std::sscanf(asked, "%d.%d", &major, &minor);
    std::unique_ptr<Card> last;
    for (const Card& card : cards)
      if (card.major == major && card.minor <= minor) last = std::make_unique<Card>(card);
    if (!last) {
      std::fprintf(stderr, "TENON_PTX_EMULATOR_RUN: no card of %s\n", asked);
      std::abort();
    }
    last->minor = minor;
    return last;
  }();
  return found.get();
}

int on_stream(std::function<int()> work) {
  if (recorded.empty() || !card_that_runs()) return work();
  recorded.back()->push_back(std::move(work));
  return 0;
}

void begin_recording(Work* into) { recorded.push_back(into); }

Work* recording() { return recorded.empty() ? nullptr : recorded.back(); }

Work* end_recording() {
  if (recorded.empty()) return new Work;
  Work* ended = recorded.back();
  recorded.pop_back();
  return ended;
}

int replay(const Work& work) {
  for (const auto& one : work)
    if (const int result = one()) return result;
  return 0;
}

std::vector<char> arguments_of(const Kernel& kernel, void** arguments) {
  std::vector<char> bytes;
  if (!kernel.function || !arguments) return bytes;
  size_t at = 0;
  for (const Variable& one : kernel.function->parameters) {
    const char* from = static_cast<const char*>(arguments[at++]);
    bytes.insert(bytes.end(), from, from + one.bytes);
  }
  return bytes;
}

int run_emulated(Kernel& kernel, const cuda::LaunchConfig& config, const std::vector<char>& arguments,
                 const std::vector<Range>& ranges, std::string& why) {
  try {
    make_ready(kernel);
    const char* from = arguments.data();
    for (const Code::Parameter& one : kernel.code->parameters) {
      std::memcpy(kernel.code->parameter_bytes.data() + one.offset, from, one.bytes);
      from += one.bytes;
    }
    Launch launch;
    launch.grid = {config.grid_x, config.grid_y, config.grid_z};
    launch.block = {config.block_x, config.block_y, config.block_z};
    launch.dynamic_shared_bytes = config.shared_bytes;
    launch.ranges = &ranges;
    launch.finds_races = std::getenv("TENON_PTX_EMULATOR_RACES") != nullptr;
    const auto begin = std::chrono::steady_clock::now();
    const int64_t steps = run_kernel(*kernel.code, launch);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    static const bool logs = std::getenv("TENON_PTX_EMULATOR_LOG") != nullptr;
    if (logs)
      std::fprintf(stderr, "%s, %lld blocks of %lld: %lld instructions of warps, %.0f million a second\n",
                   kernel.name.c_str(), static_cast<long long>(launch.grid.count()),
                   static_cast<long long>(launch.block.count()), static_cast<long long>(steps),
                   static_cast<double>(steps) / seconds.count() * 1e-6);
    return 0;
  } catch (const Fault& fault) {
    why = "kernel " + kernel.name + ", " + fault.why;
    return fault.result;
  } catch (const std::exception& error) {
    why = "kernel " + kernel.name + ", " + error.what();
    return illegal_instruction;
  }
}

const char* name_of(int result) {
  switch (result) {
    case illegal_address: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case launch_timeout: return "CUDA_ERROR_LAUNCH_TIMEOUT";
    case illegal_instruction: return "CUDA_ERROR_ILLEGAL_INSTRUCTION";
    case misaligned_address: return "CUDA_ERROR_MISALIGNED_ADDRESS";
    default: return "EMULATOR";
  }
}

}  // namespace tenon::ptx_emulator
