// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "explain/report.h"
#include "ops/op.h"

namespace tenon::explain {
namespace {

/// Findings that concern less are not worth the reader's time.
constexpr double least_share = 0.01;

std::string ms(double microseconds) { return fmt::format("{:.3g} ms", microseconds / 1000); }
std::string percent(const Report& report, double microseconds) {
  return fmt::format("{:.0f} %", report.microseconds > 0 ? 100 * microseconds / report.microseconds : 0);
}

double total(const std::vector<const Row*>& rows) {
  double sum = 0;
  for (const Row* row : rows) sum += std::max(row->microseconds, 0.0);
  return sum;
}

const Row& costliest(const std::vector<const Row*>& rows) {
  return **std::max_element(rows.begin(), rows.end(),
                            [](const Row* a, const Row* b) { return a->microseconds < b->microseconds; });
}

template <class Test>
std::vector<const Row*> those(const Report& report, const Test& test) {
  std::vector<const Row*> rows;
  for (const Row& row : report.rows)
    if (test(row)) rows.push_back(&row);
  return rows;
}

std::string steps(size_t count) { return counted(count, "step"); }

/// What is odd about the data concerns everything.
void suspicions(Report& report) {
  for (const plan::Suspicion& suspicion : report.evidence.suspicions)
    report.findings.push_back({report.microseconds, "calibration: " + suspicion.what, suspicion.why, suspicion.todo});
}

void plain_kernels(Report& report) {
  const auto rows = those(report, [](const Row& row) { return row.kernel == "ref"; });
  if (rows.empty()) return;
  const Row& worst = costliest(rows);
  const std::string why = refusals(worst);
  report.findings.push_back(
      {total(rows),
       fmt::format("{} on the plain kernel, {} ({}); the costliest is {} ({})", steps(rows.size()), ms(total(rows)),
                   percent(report, total(rows)), worst.name, worst.op),
       why.empty() ? "no other kernel knows the op" : why,
       "results are right, only slow; another form of the node at export may have a kernel"});
}

void strays(Report& report) {
  const auto rows = those(report, [](const Row& row) { return row.on_host; });
  if (rows.empty()) return;
  const Row& worst = costliest(rows);
  const std::string why = refusals(worst);
  report.findings.push_back(
      {total(rows),
       fmt::format("{} on the CPU with copies, {} ({}); the costliest is {} ({})", steps(rows.size()), ms(total(rows)),
                   percent(report, total(rows)), worst.name, worst.op),
       why.empty() ? "no GPU kernel knows the op" : why,
       "keep such nodes to the ends of the model, where copies are due"});
}

void guesses(Report& report) {
  const auto rows = those(report, [](const Row& row) { return row.choices > 1 && row.alone < 0; });
  if (rows.empty()) return;
  report.findings.push_back({total(rows),
                             fmt::format("{} with a choice of kernels were not timed, {} ({})", steps(rows.size()),
                                         ms(total(rows)), percent(report, total(rows))),
                             "their kernels are a guess: tuning was cut short by --budget, or was for other sizes or "
                             "another number of threads",
                             "build without --budget, for the sizes and threads that will run"});
}

void movement(Report& report) {
  const auto rows = those(report, [](const Row& row) {
    return ops::has_trait(row.op, ops::Trait::moves) || ops::has_trait(row.op, ops::Trait::converts);
  });
  if (rows.empty()) return;
  const Row& worst = costliest(rows);
  std::string todo = "look at the costliest: a different layout or order of axes at export may save it";
  if (ops::has_trait(worst.op, ops::Trait::quantises) || ops::has_trait(worst.op, ops::Trait::dequantises))
    todo = "keep a lone quantised layer in floating point where two conversions cost more than it saves";
  report.findings.push_back(
      {total(rows),
       fmt::format("moving and converting data takes {} ({}) in {}; the costliest is {} ({})", ms(total(rows)),
                   percent(report, total(rows)), steps(rows.size()), worst.name, worst.op),
       "their inputs and outputs are wanted in different places, orders or types", todo});
}

void costly_steps(Report& report) {
  for (const Row& row : report.rows) {
    if (!ops::has_trait(row.op, ops::Trait::product) || row.microseconds <= 0 || row.kernel == "ref") continue;
    const auto second = std::find_if(row.candidates.begin(), row.candidates.end(),
                                     [](const Candidate& candidate) { return candidate.microseconds > 0; });
    std::string why = fmt::format("{} on {}: ", row.kernel, row.sizes);
    if (second == row.candidates.end() || row.alone <= 0)
      why += row.choices > 1 ? "no candidate was timed" : "no other kernel takes it";
    else
      why += fmt::format("the fastest of {}{} {}, {:.2f} times as long", row.choices,
                         second->microseconds < row.alone ? " inside the network; alone it would be" : "; next is",
                         second->kernel, second->microseconds / row.alone);
    const double sure = row.microseconds * (1 - report.runs.spread());  // less than that is no noise
    std::string todo = "nothing faster is known for it here; a smaller input or fewer channels would shrink it";
    if (row.precision == Precision::fp32 && row.switched > 0 && row.switched < sure)
      todo = fmt::format("INT8 would save {}: {}", ms(row.microseconds - row.switched),
                         report.precision == Precision::int8
                             ? keep_line(row, Precision::int8)
                             : "build with --precision int8 --data IMAGES --preprocess SPEC");
    else if (row.precision == Precision::fp32 && row.switched > 0 && row.switched < row.microseconds)
      todo = "whether INT8 would be faster is not sure: runs differ by more; measure on an idle machine";
    else if (row.precision == Precision::fp32 && row.switched > 0)
      todo = fmt::format("INT8 would cost {} more; a smaller input or fewer channels would shrink it",
                         ms(row.switched - row.microseconds));
    // The reason says what INT8 would save.
    if (report.precision == Precision::int8 && row.precision == Precision::fp32 && !row.kept.empty())
      todo = fmt::format("INT8 was held back, as {}; to have it: {}", row.kept, keep_line(row, Precision::int8));
    if (row.precision == Precision::int8 && row.switched > 0 && row.switched < sure)
      todo = fmt::format("floating point would save {}: {}", ms(row.microseconds - row.switched),
                         keep_line(row, Precision::fp32));
    if (row.precision == Precision::fp32 && report.floats != Precision::fp32)
      todo = fmt::format("build with --precision {}", name(report.floats));
    report.findings.push_back({row.microseconds,
                               fmt::format("{} ({}, {}) takes {}, {} of the time", row.name, row.op, row.arithmetic,
                                           ms(row.microseconds), percent(report, row.microseconds)),
                               why, todo});
  }
}

}  // namespace

std::string refusals(const Row& row, bool all) {
  std::string text;
  for (const Candidate& candidate : row.candidates)
    if (candidate.refusal && (all || candidate.refusal.code != backends::Reason::precision))
      text += (text.empty() ? "" : "; ") + candidate.kernel + ": " + candidate.refusal.text();
  return text;
}

std::string keep_line(const Row& row, Precision precision) {
  std::string quoted;
  for (const char c : row.name) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "--keep '" + quoted + "=" + std::string(name(precision)) + "'";
}

void find(Report& report) {
  report.findings.clear();
  suspicions(report);
  plain_kernels(report);
  strays(report);
  guesses(report);
  movement(report);
  costly_steps(report);
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.microseconds > b.microseconds; });
  const double least = least_share * report.microseconds;
  while (report.findings.size() > 1 && report.findings.back().microseconds < least) report.findings.pop_back();
}

}  // namespace tenon::explain
