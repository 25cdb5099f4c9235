// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/import.h"
#include "passes/pass.h"
#include "plan/plan.h"

namespace tenon::plan {

/// Follows the nodes of a model through a build, so that each can be accounted for at its end.
class SourceTracker {
 public:
  SourceTracker(std::vector<onnx::Listed> listed, const ir::Graph& imported);
  /// What the passes did, in their order.
  void note(const std::vector<passes::PassRecord>& records);
  std::vector<Source> finish(const ir::Graph& graph) const;

 private:
  std::string next_of(const std::string& name, const std::set<std::string>& alive) const;

  std::vector<onnx::Listed> listed_;
  std::map<std::string, std::set<std::string>> readers_;  // by ONNX node, in the graph as imported
  std::set<std::string> used_;                            // an output depends on them
  std::map<std::string, std::string> gone_;               // what took them away
};

}  // namespace tenon::plan
