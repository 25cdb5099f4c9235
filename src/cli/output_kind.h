// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>
#include <vector>

#include "metrics/bootstrap.h"
#include "metrics/shift.h"

namespace tenon::cli {

/// How much of a measure INT8 may change without labels: so many times what the jitter does, and always as much as
/// `least`; `spread` of shifts where no jitter is measured. docs/int8_evidence.md has what this was chosen by.
struct Measure {
  double times, least, spread;
};

/// What outputs are that are neither boxes nor one class, by what a model gives for a batch.
enum class OutputKind {
  signal,     ///< any numbers
  class_map,  ///< scores of classes, or classes, at each of many positions
  embedding,  ///< one vector of length 1 a sample
  tokens,     ///< for tokens as inputs, scores of a vocabulary at each position
};
OutputKind kind_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

/// Whether outputs, one a sample, are an embedding rather than scores of classes.
bool is_embedding(const Tensor& output);

const char* metric_of(OutputKind kind);
Measure measure_of(OutputKind kind);

/// The most that the distribution of tokens may diverge on average, in nats: a thousandth of what a text's likelihood
/// costs a small model, and what INT8 weights do to it by themselves.
constexpr double most_divergence = 0.01;

/// What is left of sample `row` of floating point's outputs, as a share; for tokens also how the distributions
/// diverge.
void add_kept(OutputKind kind, const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row,
              metrics::Share& share, metrics::Shift& divergence);

}  // namespace tenon::cli
