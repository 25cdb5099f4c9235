// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <memory>

#include "cli/stages.h"

namespace tenon::cli {

/// Shows progress on stderr: one line that is redrawn on a terminal, a line for each stage elsewhere, nothing when
/// `quiet`. Cancels after a signal.
Progress progress_to_stderr(bool quiet);

/// The same of a whole build: one bar over all stages, with the step and the time left, or a line for each stage.
/// `kind` is read when the build begins.
Progress build_progress(bool quiet, std::shared_ptr<const BuildKind> kind);

}  // namespace tenon::cli
