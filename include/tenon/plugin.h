// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <string>

namespace tenon {

/// Loads a plugin, which <tenon/custom_op.h> describes, and adds its ops to those that models may use, for the process:
/// before models that use them are built, and engines loaded. Not while another thread builds, loads or runs. A second
/// time for one file does nothing. The file's code runs with all rights of the process. Throws Error(io) where it
/// cannot be loaded, Error(unsupported) where it is no plugin or its ops cannot be added.
TENON_API void load_plugin(const std::string& path);

}  // namespace tenon
