// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tenon::plan {

/// A layer that INT8 was considered for.
struct LayerEvidence {
  std::string node;  // its first ONNX node
  bool integer = false;
  std::string reason;  // why it stays in floating point
  double error = -1;   // at the outputs with this layer's input alone in INT8; below 0: not measured
};

/// A tensor that is stored in INT8, or was considered for it.
struct TensorEvidence {
  std::string name;                 // of the ONNX tensor
  double low = 0, high = 0;         // seen in the data, with what shares its scale
  std::string low_from, high_from;  // the samples that gave them
  double scale = 0;                 // 0: it stays in floating point
  int zero = 0;
  double saturated = 0;            // share of the values that lie outside
  int64_t channels = 0, dead = 0;  // those that were zero throughout
};

/// How far ranges were from their last ones after so many samples: the median over tensors.
struct Coverage {
  int64_t samples = 0;
  double change = 0;
};

/// Something about the data that explains bad accuracy.
struct Suspicion {
  std::string what, why, todo;
};

/// An engine that was measured on the user's data. Drops are in points below the floating point engine's value.
struct SearchPoint {
  double milliseconds = 0;  // of a run; 0: not measured
  double value = 0, drop = 0, low = 0, high = 0;
  int64_t integer = 0;              // layers in INT8
  std::vector<std::string> floats;  // the others, by their first ONNX node
  bool chosen = false;
  std::string rest = "fp32";        // what the others are in; "12 bf16": so many of them; "rnn i8": recurrent weights
  std::string objection = {};       // why it is not good enough whatever its drop
};

/// The search for the fastest engine within a drop. The first point is the fp32 engine; the next is one of 16 bits
/// on a GPU, and where any precision will do on a CPU that multiplies bf16, or one by recurrent weights of 8 bits.
struct Search {
  std::string metric;
  int64_t samples = 0;
  double limit = 0;  // points
  std::vector<SearchPoint> points;
  std::string why;           // of the choice
  std::string reason = {};   // of the limit
  double jitter = 0;         // points that a harmless change of the data costs fp32 itself; 0: not measured
  std::string change = {};   // which one
};

/// What calibration saw and decided.
struct Evidence {
  int64_t samples = 0;
  double error = 0;  // at the outputs, of the whole recipe
  std::vector<LayerEvidence> layers;
  std::vector<TensorEvidence> tensors;
  std::vector<Coverage> coverage;
  std::vector<Suspicion> suspicions;
  Search search;  // without points where there was none
  bool empty() const { return layers.empty() && tensors.empty() && search.points.empty(); }
  /// The least count of samples after which ranges stayed within `tolerance` of the last ones; 0: not known.
  int64_t enough(double tolerance = 0.02) const;
};

nlohmann::json json_of(const Evidence& evidence);
nlohmann::json json_of(const Search& search);
/// Throws nlohmann's exceptions where the text holds something else.
Evidence evidence_of(const nlohmann::json& json);

}  // namespace tenon::plan
