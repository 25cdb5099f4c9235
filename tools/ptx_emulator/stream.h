// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/runtime/driver.h"
#include "cards.h"
#include "cubin.h"
#include "interpret.h"

/// What emulated GPUs do where they run kernels: at once, or when the graph is launched that records them.
namespace tenon::ptx_emulator {

using Work = std::vector<std::function<int()>>;  // each gives the driver's result

/// The one device there is where TENON_PTX_EMULATOR_RUN names its compute capability ("8.0"), and its kernels run; else
/// nullptr. Of one that no card has ("8.1") it is the card before: for it compilers give PTX.
const Card* card_that_runs();

/// Does the work, or records it where this thread records a graph.
int on_stream(std::function<int()> work);
/// Recordings may lie in each other; the last that began takes what comes.
void begin_recording(Work* into);
Work* recording();  // nullptr: none
Work* end_recording();
int replay(const Work& work);

/// The bytes of a kernel's arguments, in their order; none of machine code.
std::vector<char> arguments_of(const Kernel& kernel, void** arguments);
/// The driver's result, and why it is not 0.
int run_emulated(Kernel& kernel, const cuda::LaunchConfig& config, const std::vector<char>& arguments,
                 const std::vector<Range>& ranges, std::string& why);

const char* name_of(int result);

}  // namespace tenon::ptx_emulator
