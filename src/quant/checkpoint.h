// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quant/cache.h"
#include "quant/observations.h"

namespace tenon::quant {

/// A checkpoint as JSON text; it stands in the calibration cache until the calibration is done.
std::string write_checkpoint(const CacheKey& key, int64_t batch, const Checkpoint& checkpoint);
bool is_checkpoint(const std::string& text);
/// Empty where the text is no checkpoint, or one of another key, batch or number of scale groups. Throws Error(io)
/// where it is damaged.
Checkpoint read_checkpoint(const std::string& text, const CacheKey& key, int64_t batch, size_t groups);

}  // namespace tenon::quant
