// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/output_kind.h"
#include "cli/scored_outputs.h"

namespace tenon::cli {

/// The outputs of a model that has several, or one number a sample: vectors by what each is, numbers at the positions
/// of scores by these, all others together, and each of these parts within a limit of its own. As one signal the few
/// numbers that reach far would hide the others.
class OutputParts {
 public:
  /// What is left of a part.
  struct Part {
    Kept kept;
    metrics::Agreement decisions;
    metrics::ScoredSignal scored;
  };
  using Parts = std::vector<Part>;

  /// Takes outputs apart, those of the first batch with one sample after the other.
  void begin(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  /// Whether they are judged together, as one kind.
  bool empty() const { return vectors_.empty() && scored_.empty(); }
  /// Notes the reference's vectors of a sample.
  void see(const std::vector<Tensor>& outputs, int64_t row);
  /// Tells what the parts are, when all samples have been seen.
  void recognise();

  /// That of the first output's part, in whose points all are told.
  OutputKind kind() const { return rules_[0].kind; }
  std::string metric() const;

  void add(const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row, Parts& sums) const;
  /// Takes each part's limit from what harmless changes of the inputs lose; none where nothing is known of them.
  void limit_by(Parts jitter);
  /// The share that is lost, by the part that loses the most of its limit: as much of the first part's. That of the
  /// first part alone as long as there are no limits.
  double lost(Parts& sums, std::span<const uint32_t> weights) const;

 private:
  struct Vector {
    size_t output;
    std::vector<std::vector<float>> samples;
    double variance = 0;    // of one number, over all samples
    bool is_logit = false;  // of yes or no
  };
  struct Rule {
    OutputKind kind;
    std::vector<size_t> outputs;
    double variance;
    bool is_logit;
    double scale;  // the first part's limit over this one's
    ScoredOutputs::Output scored;
  };
  static OutputKind kind_of(Vector& vector);
  static void add(const Rule& rule, const Tensor& exact, const Tensor& other, int64_t row, Part& sum);
  static double lost(const Rule& rule, Part& sum, std::span<const uint32_t> weights);

  std::vector<Vector> vectors_;
  ScoredOutputs scored_;
  std::vector<size_t> others_;
  OutputKind others_kind_ = OutputKind::signal;
  std::vector<Rule> rules_;
};

}  // namespace tenon::cli
