// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/limits.h"
#include "backends/reason.h"
#include "plan/plan.h"

/// What a build decided and what it knew, node by node. Times are in microseconds; below 0: not known.
namespace tenon::explain {

constexpr double unknown = -1;

/// A kernel that a step might have run on: with its time alone in the build, or the reason why it cannot.
struct Candidate {
  std::string kernel;
  double microseconds = unknown;
  backends::Reason refusal = {};
};

/// What a step has to do at least: bytes moved, multiply-adds, and the bytes of the numbers multiplied.
struct Work {
  double bytes = 0, products = 0, width = 4;
};

/// The least time of a step; whether products, and not bytes, decide it.
struct Floor {
  double microseconds = unknown;
  bool by_products = false;
};

/// A step of the plan.
struct Row {
  std::string name;                           // of the first ONNX node it stands for; its op where there is none
  std::vector<std::string> origins;           // all of them
  std::string op, sizes, arithmetic, kernel;  // arithmetic: a precision, or an element type where there is none
  double microseconds = unknown;              // in the whole network, measured now; else alone, in the build
  double alone = unknown;                     // in the build
  int choices = 0;                            // kernels that take it, the plain one left out
  std::vector<Candidate> candidates;
  std::string kept;        // why it is not in INT8, where a calibration left it out
  double error = unknown;  // that INT8 adds at the outputs, in the layers alone that read its input
  /// Its time in the other of floating point and INT8, alone.
  double switched = unknown;
  std::optional<Precision> precision = {};
  bool on_host = false;  // though the plan is for another device
  std::string inside = {};  // of a step in a body: the nodes around it, each with a "/" behind it
  double rounds = 1;        // how often a run comes there; unknown where it was not measured
  Work work = {};
  Floor floor = {};
};

/// A node of the model. Every one has an entry.
struct Fate {
  std::string name, op;
  std::vector<size_t> rows;  // steps that compute it
  std::string says;          // why there are none
};

/// What is worth doing something about.
struct Finding {
  double microseconds = 0;  // what it concerns
  std::string what, why, todo;
};

/// Runs of the whole network, one after the other.
struct Runs {
  size_t count = 0;
  double middle = unknown, low = unknown, high = unknown;  // the median, and between which eight of ten are
  /// From low to high, in parts of the middle.
  double spread() const { return middle > 0 ? (high - low) / middle : 0; }
};
Runs runs_of(std::vector<double> microseconds);

struct Report {
  Device device;
  Precision precision = Precision::fp32;
  std::string isa;
  int threads = 1;
  bool measured = false;    // rows hold times of this machine
  double microseconds = 0;  // all rows together
  Runs runs = {};           // of this machine
  std::vector<Row> rows;
  std::vector<Fate> nodes;
  std::vector<Finding> findings;  // the costliest first
  std::vector<std::string> notes;
  plan::Evidence evidence;             // of its calibration
  Precision floats = Precision::fp32;  // the fastest of the device that needs no data
  std::optional<backends::Limits> limits = {};  // of the machine, where its floors are known
  std::vector<size_t> far = {};                 // rows that are far from their floors, the costliest first
  double share(const Row& row) const {
    return microseconds > 0 && row.microseconds > 0 ? row.microseconds / microseconds : 0;
  }
};

/// Accounts for every node of the model. `layers` is a session's profile for the plan's sizes and `threads`, empty for
/// none.
Report explain(const plan::Plan& plan, const std::vector<LayerTime>& layers, int threads);

/// "kernel: why; kernel: why" of the kernels that do not take a row; with `all` also of those whose precision nobody
/// asked for.
std::string refusals(const Row& row, bool all = false);

/// Fills `findings` from the rest.
void find(Report& report);

/// The lines `--keep` takes to hold a row's nodes at a precision.
std::string keep_line(const Row& row, Precision precision);

/// What to say where times of now are no measure: runs that differ, or that take another time than in the build.
std::vector<std::string> doubts_of(const Report& report);

/// For reading: findings, the costliest steps and totals by kind; with `all` every step in order, kernels refused as
/// their precision was not asked for, and the nodes that need no step. With `only` not empty, what concerns that node.
/// Throws Error(usage) where the model has no such node; `suggest` may find a like name.
using Suggest = std::string (*)(const std::string& word, const std::vector<std::string>& candidates);
std::string text(const Report& report, const std::string& only = {}, Suggest suggest = nullptr, bool all = false);
nlohmann::ordered_json json(const Report& report);

/// The calibration: what is odd about its data, how many samples were enough, the range of every tensor.
std::string audit_text(const plan::Evidence& evidence);
nlohmann::ordered_json audit_json(const plan::Evidence& evidence);

/// The engines that a search has measured, and why one was chosen.
std::string search_text(const plan::Search& search);

}  // namespace tenon::explain
