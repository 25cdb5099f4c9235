// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>

/// Everything that Tenon reads from the environment. Nothing else calls getenv; what belongs to a model or a build is
/// an option.
namespace tenon::knobs {

struct Knob {
  const char* name;
  const char* values;
  const char* says;
};

extern const Knob isa, cache_dir, xdg_cache_home, home, cuda_home, path, no_color, sigbus;

/// In the order in which the command lists them.
std::span<const Knob* const> all();

/// Nothing where the variable is unset or empty.
std::optional<std::string> value(const Knob& knob);

}  // namespace tenon::knobs
