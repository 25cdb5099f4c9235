// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/limits.h>
#include <unistd.h>

#include <csignal>

#include "backends/cpu/isa.h"
#include "engine/engine.h"
#include "ops/case.h"
#include "support/op_graphs.h"

/// Every op with operands, outputs and attributes that are wrong in most ways: what is refused is refused by an Error,
/// and what is not runs, by the reference kernel and by the fastest.
namespace tenon {
namespace {

constexpr int rounds = 60, rounds_of_a_case = 12;
constexpr int64_t most_elements = 20'000;

std::string current;

void tell(int signal) {
  if (::write(STDERR_FILENO, current.data(), current.size()) < 0) std::abort();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

Engine engine_of(ir::Graph graph) {
  plan::Plan plan;
  plan.graph = std::move(graph);
  plan.goal.isa = cpu::isa_name(cpu::detect_isa());
  return tenon::engine_of(std::move(plan));
}

bool is_small(const ir::Graph& graph) {
  for (const ir::Value& value : graph.values)
    if (value.shape && (!ir::is_constant(*value.shape) || ir::product(*value.shape).value() > most_elements))
      return false;
  return true;
}

/// Whether the node was taken by inference.
bool attempt(ir::Graph graph, std::mt19937_64& random) {
  current = ir::print(graph, nullptr, 64);
  try {
    ops::infer(graph);
  } catch (const Error&) {
    return false;
  }
  try {
    if (!is_small(graph)) return true;
    const std::vector<Tensor> inputs = test::random_inputs(graph, random);
    ops::interpret(graph, inputs);
    graph.tidy();
    if (graph.nodes.empty()) return true;
    std::map<std::string, Tensor> named;
    for (size_t at = 0; at < graph.inputs.size(); ++at) named[graph.value(graph.inputs[at]).name] = inputs[at];
    engine_of(graph).session(1).run(named);
  } catch (const Error&) {
  }
  return true;
}

class OpsSmoke : public ::testing::Test {
 protected:
  OpsSmoke() : before_(limits()) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, tell);
    Limits tight = before_;
    tight.memory_bytes = 256 << 20, tight.loop_rounds = 100;
    set_limits(tight);
  }
  ~OpsSmoke() override { set_limits(before_); }
  /// Anything but an Error is a finding.
  bool take(const ir::Graph& graph) {
    try {
      return attempt(graph, random_);
    } catch (const std::exception& fault) {
      ADD_FAILURE() << fault.what() << "\n" << current;
      return false;
    }
  }

  Limits before_;
  std::mt19937_64 random_{7};
};

TEST_F(OpsSmoke, NodesMadeUpFromDefinitions) {
  int taken = 0;
  for (const ops::OpDef* op : ops::all())
    for (int round = 0; round < rounds; ++round) taken += take(test::random_graph(*op, random_));
  EXPECT_GT(taken, rounds) << "hardly any node is right";
}

TEST_F(OpsSmoke, CasesWithFaults) {
  for (const tests::Case& one : tests::read_cases(TENON_SOURCE_DIR "/tests/ops")) {
    if (!is_small(one.graph)) continue;
    EXPECT_TRUE(take(one.graph)) << one.name();
    for (int round = 0; round < rounds_of_a_case; ++round) take(test::damaged_graph(one.graph, random_));
  }
}

}  // namespace
}  // namespace tenon
