// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/printable.h"
#include "explain/report.h"

namespace tenon::explain {
namespace {

using Json = nlohmann::ordered_json;

std::string coverage_text(const plan::Evidence& evidence) {
  if (evidence.coverage.size() < 2) return "coverage: one sample says nothing of how many are enough\n";
  const int64_t enough = evidence.enough();
  std::string text = enough > 0 && enough < evidence.samples
                         ? fmt::format("coverage: {} of {} samples were enough\n", enough, evidence.samples)
                         : fmt::format("coverage: ranges were still moving after {}; more would be better\n",
                                       counted(evidence.samples, "sample"));
  for (const plan::Coverage& point : evidence.coverage)
    text +=
        fmt::format("{:>18}: ranges {:.1f} % from the last\n", counted(point.samples, "sample"), 100 * point.change);
  return text;
}

std::string text_of(const plan::TensorEvidence& tensor) {
  std::string text = fmt::format("{:11.4g} {:11.4g}  ", tensor.low, tensor.high);
  if (tensor.scale > 0)
    text += fmt::format("{:11.4g} {:11.4g} {:8.4f}", -tensor.zero * tensor.scale, (255 - tensor.zero) * tensor.scale,
                        100 * tensor.saturated);
  else text += fmt::format("{:>11} {:>11} {:>8}", "float", "", "");
  text += tensor.dead > 0 ? fmt::format(" {:>9}", fmt::format("{}/{}", tensor.dead, tensor.channels))
                          : std::string(10, ' ');
  return text + "  " + printable(tensor.name) + "\n";
}

}  // namespace

std::string audit_text(const plan::Evidence& evidence) {
  std::string text = fmt::format("calibrated on {}; error {:.2g} at the outputs\n", counted(evidence.samples, "sample"),
                                 evidence.error);
  if (evidence.suspicions.empty()) text += "nothing is odd about the data\n";
  for (const plan::Suspicion& suspicion : evidence.suspicions)
    text += fmt::format("\n{}\n   why: {}\n   do:  {}\n", printable(suspicion.what), printable(suspicion.why),
                        printable(suspicion.todo));
  text += "\n" + coverage_text(evidence);
  text += fmt::format("\n{:>11} {:>11}  {:>11} {:>11} {:>8} {:>9}  {}\n", "least", "greatest", "from", "to", "out %",
                      "dead", "tensor");
  for (const plan::TensorEvidence& tensor : evidence.tensors) text += text_of(tensor);
  std::vector<const plan::TensorEvidence*> widest;
  for (const plan::TensorEvidence& tensor : evidence.tensors)
    if (tensor.scale > 0 && tensor.saturated > 0) widest.push_back(&tensor);
  std::stable_sort(widest.begin(), widest.end(),
                   [](const auto* a, const auto* b) { return a->saturated > b->saturated; });
  if (widest.size() > 5) widest.resize(5);
  if (!widest.empty()) text += "\nmost cut off, and the samples that reach farthest:\n";
  for (const plan::TensorEvidence* tensor : widest)
    text += fmt::format("  {}: {:.4f} % outside; {:.4g} in {}, {:.4g} in {}\n", printable(tensor->name),
                        100 * tensor->saturated, tensor->low, printable(tensor->low_from), tensor->high,
                        printable(tensor->high_from));
  return text;
}

Json audit_json(const plan::Evidence& evidence) {
  Json json = plan::json_of(evidence);
  json["enough"] = evidence.enough();
  return json;
}

}  // namespace tenon::explain
