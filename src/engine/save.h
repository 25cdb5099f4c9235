// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/engine.h>

#include <string>

namespace tenon {

/// Engine::save, which gives the file's bytes. They go to the file one after the other and are read back before it gets
/// its name.
int64_t save(const Engine& engine, const std::string& path);

}  // namespace tenon
