// SPDX-License-Identifier: Apache-2.0
#include "cli/stages.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tenon::cli {
namespace {

constexpr double told_from = 0.2;  // of the whole: before, the time left is a guess

/// Steps of a judged build, and of one that only calibrates.
enum Judged { floats, judge, calibrate, scales, layers, search };
enum Calibrated { seen, chosen, measured, tuned };

constexpr double plain_shares[] = {1};
constexpr double calibrated_shares[] = {0.5, 0.15, 0.2, 0.15};
constexpr double judged_shares[] = {0.05, 0.15, 0.25, 0.3, 0.1, 0.15};

std::span<const double> shares_of(BuildKind kind) {
  if (kind == BuildKind::plain) return plain_shares;
  if (kind == BuildKind::calibrated) return calibrated_shares;
  return judged_shares;
}

bool is_of_layers(const std::string& stage) {
  return stage == "measure layers" || stage == "place layers" || stage == "reconstruct weights";
}

}  // namespace

int Stages::step_of(const std::string& stage) const {
  if (kind_ == BuildKind::plain) return 0;
  if (kind_ == BuildKind::calibrated) {
    if (stage == "calibrate") return seen;
    if (stage == "choose ranges") return chosen;
    return is_of_layers(stage) ? measured : step_ == seen && last_ == 0 ? seen : tuned;
  }
  if (stage == "judge fp32" || stage == "judge jitter") return judge;
  if (stage == "calibrate") return calibrate;
  if (stage == "choose ranges") return scales;
  if (is_of_layers(stage)) return std::max<int>(step_, layers);
  // Engines are tuned and judged to choose scales, and in the search; a cache leaves out what is between.
  return step_ == floats || step_ == scales ? step_ : search;
}

double Stages::part(const std::string& stage, double done) {
  if (kind_ != BuildKind::judged) return done;
  if (stage == "judge fp32") return done / 2;
  if (stage == "judge jitter") return 0.5 + done / 2;
  if (step_ != scales && step_ != search) return done;
  // Of scales there are up to three engines; of the search nobody knows, and each takes half of what is left.
  if (stage == "choose ranges") return done / 4;
  const double engine = engines_ + (stage == "judge" ? 0.5 + done / 2 : done / 2);
  return step_ == scales ? std::min(1.0, (1 + engine) / 4) : 1 - std::pow(0.5, engine);
}

Stages::Place Stages::at(const std::string& stage, double done) {
  const std::span<const double> shares = shares_of(kind_);
  if (stage_ == "judge" && stage != "judge") ++engines_;
  if (const int step = std::max(step_, step_of(stage)); step != step_) step_ = step, engines_ = 0;
  stage_ = stage;
  double before = 0;
  for (int at = 0; at < step_; ++at) before += shares[static_cast<size_t>(at)];
  const double here = shares[static_cast<size_t>(step_)] * std::clamp(part(stage, done), 0.0, 1.0);
  last_ = std::max(last_, before + here);
  return {step_ + 1, static_cast<int>(shares.size()), last_};
}

double Stages::left(double seconds) const {
  return last_ < told_from ? -1 : seconds * (1 - last_) / last_;
}

}  // namespace tenon::cli
