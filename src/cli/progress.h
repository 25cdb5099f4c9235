// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

namespace tenon::cli {

/// Shows progress on stderr: one line that is redrawn on a terminal, a line for each stage elsewhere, nothing when
/// `quiet`. Cancels after a signal.
Progress progress_to_stderr(bool quiet);

}  // namespace tenon::cli
