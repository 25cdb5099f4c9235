// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>

#include "base/printable.h"
#include "explain/report.h"

namespace tenon::explain {
namespace {

constexpr size_t shown_findings = 3;

std::string time_text(double microseconds) {
  return microseconds < 0 ? "not timed" : fmt::format("{:.1f} us", microseconds);
}

std::string findings_text(const Report& report) {
  std::string text;
  for (size_t at = 0; at < report.findings.size() && at < shown_findings; ++at) {
    const Finding& finding = report.findings[at];
    text += fmt::format("\n{}. {}\n   why: {}\n   do:  {}\n", at + 1, printable(finding.what), printable(finding.why),
                        printable(finding.todo));
  }
  return text;
}

/// Steps that take many times what their bytes and products need, with the reasons of kernels that refused them.
std::string far_text(const Report& report) {
  if (!report.limits) return "";
  const backends::Limits& limits = *report.limits;
  std::string text = fmt::format(
      "\nfar from the floor (4 times it and 3 % of the network): {}\n"
      "   this machine: {:.1f} GB/s from memory, {:.1f} from caches, {:.1f} G multiply-adds/s, {:.2f} us a step\n",
      report.far.empty() ? "nothing" : fmt::format("{}", report.far.size()), limits.memory / 1e3, limits.cache / 1e3,
      limits.products / 1e3, limits.step);
  for (const size_t at : report.far) {
    const Row& row = report.rows[at];
    text += fmt::format("   {:.1f} us, {:.1f} times the {:.1f} us of its {}: {} [{}] {}\n", row.microseconds,
                        row.microseconds / row.floor.microseconds, row.floor.microseconds,
                        row.floor.by_products ? "products" : "bytes", printable(row.name), row.kernel, row.sizes);
    const std::string refused = refusals(row);
    if (!refused.empty()) text += "      refused: " + refused + "\n";
  }
  return text;
}

/// With how often a step of a body runs.
std::string name_of(const Row& row) {
  std::string name = printable(row.name);
  if (!row.inside.empty() && row.rounds >= 0) name += fmt::format(" x {:.4g}", row.rounds);
  return name;
}

std::string row_text(const Report& report, const Row& row) {
  std::string text =
      row.microseconds < 0
          ? fmt::format("{:>10} {:>5}  {:<6} {:<16} {}\n", "?", "?", row.arithmetic, row.kernel, name_of(row))
          : fmt::format("{:10.1f} {:5.1f}  {:<6} {:<16} {}\n", row.microseconds, 100 * report.share(row),
                        row.arithmetic, row.kernel, name_of(row));
  const std::string indent(19, ' ');
  text += fmt::format("{}{} {}\n", indent, row.op, row.sizes);
  std::string rest;
  for (size_t at = 1; at < row.origins.size(); ++at) rest += (at > 1 ? ", " : "") + printable(row.origins[at]);
  if (!rest.empty()) text += indent + "with " + rest + "\n";
  std::string timed, refused;
  for (const Candidate& candidate : row.candidates) {
    if (candidate.refusal)
      refused += fmt::format("{}{}: {}", refused.empty() ? "" : "; ", candidate.kernel, candidate.refusal.text());
    else if (candidate.kernel != "ref")
      timed += fmt::format("{}{} {}", timed.empty() ? "" : ", ", candidate.kernel, time_text(candidate.microseconds));
  }
  if (!timed.empty())
    text += fmt::format("{}alone: {} {}; candidates: {}\n", indent, row.kernel, time_text(row.alone), timed);
  if (row.switched >= 0)
    text += fmt::format("{}in {} it would take {} ({:+.3f} ms)\n", indent,
                        row.precision == Precision::int8 ? "floating point" : "INT8", time_text(row.switched),
                        (row.switched - row.microseconds) / 1000);
  if (row.error >= 0 || !row.kept.empty()) {
    std::string told = row.precision == Precision::int8 ? "as INT8" : "in floating point";
    if (!row.kept.empty()) told += ", as " + row.kept;
    if (row.error >= 0) told += fmt::format("; INT8 here alone: error {:.2g}", row.error);
    if (row.precision == Precision::int8) told += "; float: " + keep_line(row, Precision::fp32);
    text += indent + printable(told) + "\n";
  }
  if (!refused.empty()) text += fmt::format("{}refused: {}\n", indent, refused);
  return text;
}

std::string heading() { return fmt::format("{:>10} {:>5}  {:<6} {:<16} {}\n", "us", "%", "", "kernel", "node"); }

std::string text_of(const Report& report, const Fate& node) {
  if (node.rows.empty())
    return fmt::format("{}{}: {}\n", printable(node.name), node.op.empty() ? "" : " (" + printable(node.op) + ")",
                       printable(node.says));
  std::string text = heading();
  for (const size_t row : node.rows) text += row_text(report, report.rows[row]);
  return text;
}

std::string one(const Report& report, const std::string& only, Suggest suggest) {
  std::vector<std::string> names;
  for (const Fate& node : report.nodes) {
    if (node.name == only) return text_of(report, node);
    names.push_back(node.name);
  }
  const std::string near = suggest ? suggest(only, names) : "";
  throw Error(
      Code::usage, "the model has no node \"" + printable(only) + "\"",
      {.hint = near.empty() ? "tenon why without a node lists them all" : "did you mean " + printable(near) + "?"});
}

}  // namespace

std::string text(const Report& report, const std::string& only, Suggest suggest) {
  if (!only.empty()) return one(report, only, suggest);
  std::string text = fmt::format(
      "{} on {}{}, {} thread{}: {}\n", name(report.precision), report.device.str(),
      report.isa.empty() ? "" : " (" + report.isa + ")", report.threads, report.threads == 1 ? "" : "s",
      report.microseconds > 0 ? fmt::format("{} steps, {:.3f} ms {}", report.rows.size(), report.microseconds / 1000,
                                            report.measured ? "measured" : "by the times of the build")
                              : fmt::format("{} steps, not timed", report.rows.size()));
  for (const std::string& note : report.notes) text += "note: " + printable(note) + "\n";
  if (!report.evidence.search.points.empty()) text += search_text(report.evidence.search);
  text += findings_text(report) + far_text(report) + "\n" + heading();
  for (const Row& row : report.rows) text += row_text(report, row);
  const auto idle =
      std::count_if(report.nodes.begin(), report.nodes.end(), [](const Fate& n) { return n.rows.empty(); });
  if (idle > 0) text += fmt::format("\n{} of the model's {} nodes take no step\n", idle, report.nodes.size());
  for (const Fate& node : report.nodes)
    if (node.rows.empty()) text += "  " + text_of(report, node);
  return text;
}

}  // namespace tenon::explain
