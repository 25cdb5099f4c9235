// SPDX-License-Identifier: Apache-2.0
#include "cli/doubts.h"

#include <cstring>

#include "engine/engine.h"
#include "plan/plan.h"

namespace tenon::cli {

Doubts::Doubts(const Engine& engine, const Shapes& shapes) : graph_(plan::concretise(plan_of(engine).graph, shapes)) {
  auditor_ = std::make_unique<quant::Auditor>(graph_, 0);
  if (!auditor_->has_images()) auditor_.reset();
}

void Doubts::note(const std::vector<std::string>& names, const Tensor& input, const std::vector<Tensor>& outputs,
                  Session& session) {
  if (!wants_more()) return;
  ++seen_;
  quant::DataLoader::Batch batch{{input}, names};
  std::vector<Tensor> given;
  for (const Tensor& output : outputs) given.push_back(output.copy());
  const auto run = [&](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> results(outputs.size()), copies;
    session.run(std::span<const Tensor>(inputs), results);
    for (const Tensor& result : results) copies.push_back(result.copy());
    return copies;
  };
  auditor_->note(batch, given, {}, run);
  for (size_t at = 0; at < outputs.size(); ++at)
    if (const Tensor& own = outputs[at]; own.bytes() == given[at].bytes() && own.bytes() > 0)
      std::memcpy(const_cast<std::byte*>(own.data<std::byte>()), given[at].data<std::byte>(), own.bytes());
}

std::vector<std::string> Doubts::found() const {
  std::vector<std::string> lines;
  if (auditor_ && seen_ > 0)
    for (const plan::Suspicion& suspicion : auditor_->preprocessing(graph_))
      lines.push_back(suspicion.what + ": " + suspicion.why + "; " + suspicion.todo);
  return lines;
}

}  // namespace tenon::cli
