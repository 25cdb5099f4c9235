// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

namespace tenon::metrics {

/// How alike the answers of two engines are where these are neither boxes nor one class.

/// The cosine of the angle between two vectors; 1 for two of nothing, 0 for one of nothing.
double cosine(std::span<const float> a, std::span<const float> b);

/// Numbers as [outer, classes, inner]: how many of the outer x inner positions have their greatest class where the
/// others have theirs, the first of equals.
int64_t same_best(std::span<const float> a, std::span<const float> b, int64_t classes, int64_t inner);

/// Kullback and Leibler's divergence of softmax(other) from softmax(exact), in nats.
double divergence(std::span<const float> exact, std::span<const float> other);

}  // namespace tenon::metrics
