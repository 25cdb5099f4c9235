// SPDX-License-Identifier: Apache-2.0
#include "base/knobs.h"

#include <cstdlib>

namespace tenon::knobs {

const Knob isa{"TENON_ISA", "portable, avx2, avx512, amx",
               "The highest instruction set that kernels may use; the default is what the processor has"};
const Knob cache_dir{
    "TENON_CACHE_DIR", "a folder",
    "Where kernel times and compiled kernels are kept, closed to other users; the default is tenon in the user's "
    "cache folder"};
const Knob xdg_cache_home{"XDG_CACHE_HOME", "a folder", "The user's cache folder; the default is .cache in HOME"};
const Knob home{"HOME", "a folder", "The user's folder; without it and the two above nothing is kept"};
const Knob cuda_home{"CUDA_HOME", "a folder", "A CUDA toolkit whose libraries are looked for first"};
const Knob path{"PATH", "folders", "Pythons found here are searched for the libraries of nvidia-* packages"};

const Knob no_color{"NO_COLOR", "any text", "Messages on a terminal have no colours"};
const Knob sigbus{"TENON_SIGBUS", "off",
                  "With off the library handles no SIGBUS: where another program cuts off a large file in use, the "
                  "process ends"};

std::span<const Knob* const> all() {
  static constexpr const Knob* list[] = {&isa,       &cache_dir, &xdg_cache_home, &home,
                                         &cuda_home, &path,      &no_color,       &sigbus};
  return list;
}

std::optional<std::string> value(const Knob& knob) {
  const char* text = std::getenv(knob.name);
  if (!text || !*text) return std::nullopt;
  return text;
}

}  // namespace tenon::knobs
