// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tenon::cli {

/// Whether the Python package does this: export, plot, batch, monitor, and bench where it compares frameworks.
bool is_python_verb(int argc, char** argv);
/// Becomes `python3 -m tenon` with these arguments. Throws Error(unsupported) where there is no Python.
[[noreturn]] void become_python(int argc, char** argv);

}  // namespace tenon::cli
