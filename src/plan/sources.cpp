// SPDX-License-Identifier: Apache-2.0
#include "plan/sources.h"

#include <deque>

namespace tenon::plan {

SourceTracker::SourceTracker(std::vector<onnx::Listed> listed, const ir::Graph& imported) : listed_(std::move(listed)) {
  std::vector<char> seen(imported.nodes.size(), 0);
  std::vector<ir::NodeId> waiting;
  const auto visit = [&](ir::ValueId value) {
    const ir::NodeId producer = value == ir::no_value ? ir::no_node : imported.value(value).producer;
    if (producer != ir::no_node && !seen[producer]) seen[producer] = 1, waiting.push_back(producer);
  };
  for (const ir::ValueId output : imported.outputs) visit(output);
  while (!waiting.empty()) {
    const ir::Node& node = imported.node(waiting.back());
    waiting.pop_back();
    used_.insert(node.origins.begin(), node.origins.end());
    for (const ir::ValueId input : node.inputs) visit(input);
  }
  for (const ir::Node& node : imported.nodes)
    for (const std::string& origin : node.origins) {
      std::set<std::string>& readers = readers_[origin];
      for (const ir::ValueId output : node.outputs) {
        if (output == ir::no_value) continue;
        for (const ir::NodeId user : imported.value(output).users)
          readers.insert(imported.node(user).origins.begin(), imported.node(user).origins.end());
      }
    }
}

void SourceTracker::note(const std::vector<passes::PassRecord>& records) {
  std::map<std::string, std::string> says;
  for (const auto* list : {&passes::pipeline(), &passes::lowering(), &passes::before_host(), &passes::for_host(),
                           &passes::for_gpu(), &passes::for_attention()})
    for (const passes::Pass& pass : *list) says[pass.name] = pass.says;
  for (const passes::PassRecord& record : records)
    for (const std::string& name : record.gone) gone_[name] = record.name + ": " + says[record.name];
}

/// The nearest node behind `name` that is alive.
std::string SourceTracker::next_of(const std::string& name, const std::set<std::string>& alive) const {
  std::deque<std::string> waiting{name};
  std::set<std::string> seen{name};
  while (!waiting.empty()) {
    const auto found = readers_.find(waiting.front());
    waiting.pop_front();
    if (found == readers_.end()) continue;
    for (const std::string& reader : found->second) {
      if (alive.count(reader)) return reader;
      if (seen.insert(reader).second) waiting.push_back(reader);
    }
  }
  return {};
}

std::vector<Source> SourceTracker::finish(const ir::Graph& graph) const {
  std::set<std::string> alive;
  for (const ir::Node& node : graph.nodes) alive.insert(node.origins.begin(), node.origins.end());
  std::vector<Source> sources;
  for (const onnx::Listed& node : listed_) {
    Source source{node.name, node.op};
    const auto gone = gone_.find(node.name);
    if (!node.inside.empty()) {
      source.fate = "runs inside " + node.inside;
    } else if (!alive.count(node.name)) {
      if (!readers_.count(node.name)) source.fate = "a constant";
      else if (!used_.count(node.name)) source.fate = "no output depends on it";
      else source.fate = gone == gone_.end() ? "folded in the build" : gone->second;
      source.into = next_of(node.name, alive);
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace tenon::plan
