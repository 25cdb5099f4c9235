// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/engine.h>

#include <cstdint>
#include <string>

/// What an engine tells of itself, as the commands of these names print it. Names of the model are there with their
/// control characters escaped.
namespace tenon {

enum class TextFormat : uint8_t { text, json };

/// Inputs, outputs and ops, what it was built for, the memory of a session of so many threads (0: as many as it was
/// built for), and as text every step that runs, with its kernel and the places of its operands: `tenon inspect
/// --stage plan`. Throws Error where the engine's device is not here.
TENON_API std::string inspect(const Engine& engine, TextFormat format = TextFormat::text, int threads = 0);

struct WhyOptions {
  TextFormat format = TextFormat::text;
  std::string node = {};  ///< of the model: what concerns it alone, in text
  bool measure = true;    ///< times the steps here, on random inputs; else the times are those of the build
  bool all = false;       ///< in text: every step in order, all refusals of kernels, and nodes that need no step
  int threads = 0;        ///< 0: as many as the engine was built for
};

/// The kernel and time of every node, candidates or why they refuse, and what to do: `tenon why`. Throws Error(usage)
/// where the model has no such node.
TENON_API std::string why(const Engine& engine, const WhyOptions& options = {});

}  // namespace tenon
