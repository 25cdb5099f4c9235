// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "base/printable.h"
#include "explain/report.h"

namespace tenon::explain {
namespace {

constexpr size_t shown_findings = 3, shown_rows = 10;

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

/// What holds a layer in floating point, what INT8 costs there, and how to have it.
std::string held_back(const Row& row) {
  std::string told = "in floating point, as " + row.kept;
  if (row.error >= 0) told += fmt::format("; INT8 here alone: error {:.2g}", row.error);
  return told + "; INT8: " + keep_line(row, Precision::int8);
}

/// Of a layer that INT8 was considered for.
std::string placed(const Row& row) {
  if (row.precision != Precision::int8) return row.kept.empty() ? "" : held_back(row);
  if (row.error < 0) return "";
  return fmt::format("as INT8; INT8 here alone: error {:.2g}; float: {}", row.error, keep_line(row, Precision::fp32));
}

std::string row_text(const Report& report, const Row& row, bool all) {
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
  std::string timed;
  for (const Candidate& candidate : row.candidates) {
    if (!candidate.refusal && candidate.kernel != "ref")
      timed += fmt::format("{}{} {}", timed.empty() ? "" : ", ", candidate.kernel, time_text(candidate.microseconds));
  }
  if (!timed.empty())
    text += fmt::format("{}alone: {} {}; candidates: {}\n", indent, row.kernel, time_text(row.alone), timed);
  if (row.switched >= 0)
    text += fmt::format("{}in {} it would take {} ({:+.3f} ms)\n", indent,
                        row.precision == Precision::int8 ? "floating point" : "INT8", time_text(row.switched),
                        (row.switched - row.microseconds) / 1000);
  if (const std::string told = placed(row); !told.empty()) text += indent + printable(told) + "\n";
  if (const std::string refused = refusals(row, all); !refused.empty())
    text += fmt::format("{}refused: {}\n", indent, refused);
  return text;
}

std::string heading() { return fmt::format("{:>10} {:>5}  {:<6} {:<16} {}\n", "us", "%", "", "kernel", "node"); }

std::string text_of(const Report& report, const Fate& node) {
  if (node.rows.empty())
    return fmt::format("{}{}: {}\n", printable(node.name), node.op.empty() ? "" : " (" + printable(node.op) + ")",
                       printable(node.says));
  std::string text = heading();
  for (const size_t row : node.rows) text += row_text(report, report.rows[row], true);
  return text;
}

/// The costliest steps first; with `all` every one, in the order of the network.
std::string rows_text(const Report& report, bool all) {
  std::vector<const Row*> rows;
  for (const Row& row : report.rows) rows.push_back(&row);
  std::string text = "\n";
  if (!all) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row* a, const Row* b) { return a->microseconds > b->microseconds; });
    rows.resize(std::min(rows.size(), shown_rows));
    text += fmt::format("the costliest {} of {}\n", rows.size(), counted(report.rows.size(), "step"));
  }
  text += heading();
  for (const Row* row : rows) text += row_text(report, *row, all);
  return text;
}

/// What steps of one operation and arithmetic take together, the costliest kind first.
std::string totals_text(const Report& report) {
  struct Total {
    std::string kind;
    double microseconds = 0, share = 0;
    int steps = 0;
  };
  std::map<std::string, Total> by_kind;
  for (const Row& row : report.rows) {
    Total& total = by_kind[row.op + " " + row.arithmetic];
    total.kind = fmt::format("{:<6} {}", row.arithmetic, row.op);
    total.microseconds += std::max(row.microseconds, 0.0), total.share += report.share(row), ++total.steps;
  }
  std::vector<Total> totals;
  for (const auto& [kind, total] : by_kind) totals.push_back(total);
  std::stable_sort(totals.begin(), totals.end(),
                   [](const Total& a, const Total& b) { return a.microseconds > b.microseconds; });
  std::string text = fmt::format("\ntotals by kind\n{:>10} {:>5}  {:>6}\n", "us", "%", "steps");
  for (const Total& total : totals)
    text += fmt::format("{:10.1f} {:5.1f}  {:>6}  {}\n", total.microseconds, 100 * total.share, total.steps,
                        total.kind);
  return text;
}

/// What columns and words of the table are.
std::string legend(const Report& report) {
  std::string text = fmt::format("\nus: microseconds of the step {}; %: of all steps\n",
                                 report.measured ? "in the whole network, the mean of a few runs"
                                                 : "alone, as the build timed it");
  text += "then arithmetic, kernel, the first node of the model that the step computes, its sizes and other nodes\n";
  const auto has = [&](const auto& test) { return std::any_of(report.rows.begin(), report.rows.end(), test); };
  if (has([](const Row& row) { return row.alone >= 0; }))
    text += "alone: the step by itself, timed by the build, beside the other kernels that take it\n";
  if (has([](const Row& row) { return row.error >= 0; }))
    text += "error: squared, of the outputs, in parts of their own squares, with this layer's input alone in INT8\n";
  return text + "--all: every step in order, all refusals of kernels, and the nodes that need no step\n";
}

/// Runs of the whole, and by how much they differ.
std::string runs_text(const Runs& runs) {
  if (runs.count == 0) return "";
  return fmt::format("{}: {:.3f} ms in the middle, eight of ten from {:.3f} to {:.3f} (spread {:.0f} %)\n",
                     counted(runs.count, "run"), runs.middle / 1000, runs.low / 1000, runs.high / 1000,
                     100 * runs.spread());
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

std::string text(const Report& report, const std::string& only, Suggest suggest, bool all) {
  if (!only.empty()) return one(report, only, suggest);
  std::string text =
      fmt::format("{} on {}{}, {} thread{}: {}\n", name(report.precision), report.device.str(),
                  report.isa.empty() ? "" : " (" + report.isa + ")", report.threads, report.threads == 1 ? "" : "s",
                  report.microseconds > 0
                      ? fmt::format("{}, {:.3f} ms {}", counted(report.rows.size(), "step"), report.microseconds / 1000,
                                    report.measured ? "measured" : "by the times of the build")
                      : counted(report.rows.size(), "step") + ", not timed");
  text += runs_text(report.runs);
  for (const std::string& note : report.notes) text += "note: " + printable(note) + "\n";
  if (!report.evidence.search.points.empty()) text += search_text(report.evidence.search);
  text += findings_text(report) + far_text(report) + rows_text(report, all) + totals_text(report) + legend(report);
  const auto idle =
      std::count_if(report.nodes.begin(), report.nodes.end(), [](const Fate& n) { return n.rows.empty(); });
  if (idle > 0)
    text += fmt::format("\n{} of the model's {} no step\n", idle,
                        counted(report.nodes.size(), "node") + (idle == 1 ? " takes" : " take"));
  for (const Fate& node : report.nodes)
    if (all && node.rows.empty()) text += "  " + text_of(report, node);
  return text;
}

}  // namespace tenon::explain
