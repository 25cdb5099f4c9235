// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <tuple>

#include "backends/cpu/isa.h"
#include "backends/kernel.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "ops/case.h"
#include "support/op_graphs.h"

/// Every op with operands, outputs and attributes that are wrong in most ways: what is refused is refused by an Error,
/// and what is not runs, by the reference kernel and by the fastest.
namespace tenon {
namespace {

constexpr int rounds = 60, rounds_of_a_case = 12;
constexpr int seeds_of_an_op = 6, tries_for_a_seed = 400;
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

/// Memory that ends where no page is: what is read or written beyond stops the test.
class Memory {
 public:
  explicit Memory(size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t room = (bytes + page - 1) / page * page;
    size_ = room + page;
    base_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED || ::mprotect(static_cast<std::byte*>(base_) + room, page, PROT_NONE) != 0) std::abort();
    data = static_cast<std::byte*>(base_) + room - bytes;
  }
  ~Memory() { ::munmap(base_, size_); }
  Memory(const Memory&) = delete;
  std::byte* data;

 private:
  void* base_;
  size_t size_;
};

/// The tensors' elements in such memory; strings stay where they are.
std::vector<Tensor> fenced(const std::vector<Tensor>& tensors, std::list<Memory>& memory) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) {
    all.push_back(tensor);
    if (!tensor || tensor.dtype() == DType::string || tensor.dtype() == DType::sequence) continue;
    memory.emplace_back(tensor.bytes());
    if (tensor.bytes() > 0) std::memcpy(memory.back().data, tensor.data(), tensor.bytes());
    all.back() = Tensor::view(tensor.dtype(), tensor.dims(), memory.back().data);
  }
  return all;
}

/// A node, inferred, as kernels see it, all in memory of its own.
class Fenced {
 public:
  Fenced(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
    problem.node = &graph.node(0);
    for (const ir::ValueId id : problem.node->inputs) {
      const auto given = std::find(graph.inputs.begin(), graph.inputs.end(), id);
      const Tensor value = id == ir::no_value            ? Tensor()
                           : given == graph.inputs.end() ? graph.value(id).constant
                                                         : inputs[given - graph.inputs.begin()];
      add(graph, id, problem.inputs, operands);
      if (problem.inputs.back() && value.bytes() > 0) std::memcpy(operands.back(), value.data(), value.bytes());
    }
    for (const ir::ValueId id : problem.node->outputs) add(graph, id, problem.outputs, results);
  }
  /// Whether the kernel took the node.
  bool run(const backends::Kernel& kernel) {
    static ThreadPool alone(1, Denormals::kept);
    if (!is_static || backends::refusal(kernel, problem)) return false;
    const auto step = kernel.make(problem);
    const Memory workspace((step->workspace_bytes() + 63) / 64 * 64);
    const auto work = std::tuple(step.get(), operands.data(), results.data());
    alone.run(
        [](void* opaque, const Worker& worker) {
          const auto& [own, from, to] = *static_cast<const decltype(work)*>(opaque);
          own->run(from, to, worker);
        },
        const_cast<void*>(static_cast<const void*>(&work)), workspace.data);
    return true;
  }

 private:
  void add(const ir::Graph& graph, ir::ValueId id, std::vector<backends::Operand>& list,
           std::vector<std::byte*>& places) {
    backends::Operand operand;
    places.push_back(nullptr);
    if (id != ir::no_value) {
      const ir::Value& value = graph.value(id);
      is_static = is_static && value.shape && ir::is_constant(*value.shape) && size_of(value.dtype) > 0;
      if (!is_static) return list.push_back({});
      operand.dtype = value.dtype;
      for (const ir::Dim& dim : *value.shape) operand.dims.push_back(dim.value());
      operand.strides = backends::dense_strides(operand.dims);
      operand.constant = value.constant;
      memory.emplace_back(static_cast<size_t>(operand.dims.elements()) * size_of(operand.dtype));
      places.back() = memory.back().data;
      operand.aligned = reinterpret_cast<uintptr_t>(places.back()) % 16 == 0;
    }
    list.push_back(std::move(operand));
  }

  backends::Problem problem;
  std::list<Memory> memory;
  std::vector<std::byte*> operands, results;
  bool is_static = true;
};

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

  /// Each operand of the node in turn of wrong sizes and types, by the reference and by every kernel. Returns how many
  /// kernels took one.
  int distort(const ir::Graph& right) {
    int kernels = 0;
    for (ir::Graph& graph : test::wrong_operands(right, random_)) {
      current = ir::print(graph, nullptr, 64);
      std::list<Memory> memory;
      for (ir::Value& value : graph.values) value.constant = fenced({value.constant}, memory)[0];
      try {
        ops::infer(graph);
        if (!is_small(graph)) continue;
        const std::vector<Tensor> inputs = fenced(test::random_inputs(graph, random_), memory);
        for (const backends::Kernel* kernel : backends::kernels_for(graph.node(0).op))
          if (kernel != &backends::reference_kernel()) kernels += Fenced(graph, inputs).run(*kernel);
        ops::interpret(graph, inputs);
      } catch (const Error&) {
      } catch (const std::exception& fault) {
        ADD_FAILURE() << fault.what() << "\n" << current;
      }
    }
    return kernels;
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

TEST_F(OpsSmoke, OperandsOfOtherSizesAndTypes) {
  std::map<std::string, int> seeds;
  int kernels = 0;
  for (const tests::Case& one : tests::read_cases(TENON_SOURCE_DIR "/tests/ops"))
    if (is_small(one.graph) && ++seeds[one.node().op] <= seeds_of_an_op) kernels += distort(one.graph);
  EXPECT_GT(kernels, 1000) << "hardly any kernel takes anything";
  for (const ops::OpDef* op : ops::all())
    for (int round = 0; round < tries_for_a_seed && seeds[op->id.str()] < seeds_of_an_op; ++round) {
      ir::Graph graph = test::random_graph(*op, random_);
      const ir::Graph right = graph;
      try {
        ops::infer(graph);
      } catch (const Error&) {
        continue;
      }
      ++seeds[op->id.str()];
      distort(right);
    }
}

}  // namespace
}  // namespace tenon
