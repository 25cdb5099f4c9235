// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tenon::cli {

/// From now on SIGINT and SIGTERM are noted. Work stops at its next safe point; after five seconds, or at a second
/// signal, at once.
void watch_signals();
/// 0, or the exit status for the signal that came: 130 or 143.
int interrupted();

}  // namespace tenon::cli
