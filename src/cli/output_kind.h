// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/agreement.h"
#include "metrics/bootstrap.h"
#include "metrics/shift.h"

namespace tenon::cli {

/// How much of a measure INT8 may change without labels: so many times what the jitter does, always as much as `least`
/// and never more than `most`; `spread` of shifts where no jitter is measured. docs/int8_evidence.md has what this was
/// chosen by.
struct Measure {
  double times, least, most, spread;
};

/// What outputs are that are neither boxes nor one class, by what a model gives for a batch.
enum class OutputKind {
  signal,       ///< any numbers
  image,        ///< three channels in an image's range
  mask,         ///< one number between 0 and 1 at each position, nearly all near either
  class_map,    ///< scores of classes, or classes, at each of many positions
  sequence,     ///< scores of classes at each step of a text or a sound, as CTC decodes them
  labels,       ///< likelihoods of which several may be near 1, one vector a sample
  embedding,    ///< one vector a sample, of which the direction counts
  points,       ///< a heat map for each key point
  coordinates,  ///< numbers of which none stands out and few are near nothing, as places in the image are
  tokens,       ///< for tokens as inputs, scores of a vocabulary at each position
  decisions,    ///< beside other outputs likelihoods of classes; or the logit or the likelihood of one
  amounts,      ///< one number a sample that is neither
  scored,       ///< beside other outputs scores at many positions, or numbers that count where these are high
};
OutputKind kind_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

/// Numbers of sample `row` of a batch.
std::span<const float> row_of(const Tensor& output, int64_t row);

/// Numbers per sample where the first output is a class score for each; 0 where it is something else.
int64_t classes_in(const std::vector<Tensor>& outputs, int64_t batch);

/// Whether outputs, one a sample, are an embedding rather than scores of classes.
bool is_embedding(const Tensor& output);

/// Samples of an input.
inline int64_t rows_in(const Tensor& input) { return input.dims().rank() > 0 ? input.dims()[0] : 0; }

/// The outputs with one of `batch` samples after the other, as recurrent networks have time in front, and numbers of 16
/// and 64 bits in f32.
std::vector<Tensor> by_sample(const std::vector<Tensor>& outputs, int64_t batch);

const char* metric_of(OutputKind kind);
/// `has_jitter`: whether harmless changes of the inputs are known. Of tokens none are.
Measure measure_of(OutputKind kind, bool has_jitter = true);

/// The most that the distribution of tokens may diverge on average, in nats: a thousandth of what a text's likelihood
/// costs a small model, and what INT8 weights do to it by themselves.
constexpr double most_divergence = 0.01;

/// What is left of samples of floating point's outputs.
struct Kept {
  metrics::Share share;
  metrics::Shift divergence;          ///< of the distributions of tokens, or of classes
  metrics::Shift shift;               ///< of boxes' scores, of margins, or of the areas of masks
  metrics::SureAgreement characters;  ///< of sequences

  /// The share that is lost, with sample p counted weights[p] times: of characters those that are, or that are
  /// expected to be, whichever is more.
  double lost(std::span<const uint32_t> weights) {
    return std::max(1 - share.value(weights), characters.lost(weights));
  }
};

/// Adds sample `row`.
void add_kept(OutputKind kind, const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row,
              Kept& sum);

}  // namespace tenon::cli
