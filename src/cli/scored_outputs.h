// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/scored_signal.h"

namespace tenon::cli {

/// Outputs with numbers at the same positions, of which some are scores and the others count where these are high: what
/// detectors give before boxes are made of it, as maps of centres with sizes or rows of anchors with offsets, or a
/// track along time (a pitch) beside how sure it is.
class ScoredOutputs {
 public:
  /// One of them, as [channels, positions] or the other way round; samples may have more or fewer positions.
  struct Output {
    size_t at;      ///< among the model's outputs
    size_t scores;  ///< the output that says where this one counts; itself for scores
    int64_t channels = 0, score_channels = 0;
    bool is_last = false;     ///< channels are
    bool is_logit = false;    ///< of the scores
    int64_t background = -1;  ///< the channel of the scores that stands for nothing
  };

  /// Looks for outputs that share their positions, in a batch of one sample after the other.
  void begin(const std::vector<Tensor>& outputs);
  bool empty() const { return all_.empty(); }
  /// Notes a sample of the reference.
  void see(const std::vector<Tensor>& outputs, int64_t row);
  /// Those of groups that have scores, when all samples have been seen.
  std::vector<Output> recognise() const;

  /// Adds what is left of a sample's output: nothing where the two do not fit.
  static void add(const Output& output, const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row,
                  metrics::ScoredSignal& sum);

 private:
  /// An output that may be scores: positions by the best of their channels.
  struct Candidate {
    Output output;
    std::string place;  // equal for outputs of the same positions
    bool is_bounded = true;
    int64_t seen = 0, low = 0, high = 0, low_logits = 0, high_logits = 0, fewest = 0;
    double squares = 0, steps = 0;  // of differences from a sample's mean, and between neighbours
  };
  static bool is_score(const Candidate& one);
  static bool is_sureness(const Candidate& one);
  static bool says_where(const Candidate& one) { return is_score(one) || is_sureness(one); }

  std::vector<Candidate> all_;
};

}  // namespace tenon::cli
