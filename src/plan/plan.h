#pragma once
#include <tenon/tenon.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "ir/graph.h"
#include "plan/evidence.h"

/// From an optimised graph and concrete input sizes to steps with places in one arena.
namespace tenon::cuda {
struct Properties;
}

namespace tenon::plan {

struct Plan;

/// A kernel that was timed beside others.
struct Rival {
  std::string kernel;
  double microseconds = 0;  // `never`: it could not be made or run
  uint64_t source = 0;      // of what was measured; 0: not measured by this program
};
inline constexpr double never = 1e15;

/// Kernel chosen per problem signature, with its measured time (0: not measured).
struct Record {
  std::string kernel;
  double microseconds = 0;
  std::vector<Rival> rivals = {};  // the others that were timed, the fastest first
  uint64_t source = 0;             // as a rival's
};
using Records = std::map<std::string, Record>;
/// The record of nodes that run as several steps, not as one.
inline constexpr const char* apart = "apart";

/// A copy of the graph with these input sizes, inferred and folded. Sizes missing from `shapes`: a dynamic first axis
/// is 1, others throw Error(usage) naming the input. Throws Error(usage) for an unknown input or sizes that contradict
/// the model.
ir::Graph concretise(const ir::Graph& graph, const Shapes& shapes);
/// Whether every value has concrete sizes, so that memory can be planned.
bool is_static(const ir::Graph& graph);
/// A concretised graph in two: what has concrete sizes from the inputs on, and the rest, which runs node by node. The
/// rest takes the graph's inputs, then the first part's outputs.
struct Parts {
  ir::Graph head, tail;
};
Parts parts_of(const ir::Graph& graph);
/// What a GPU can run: the graph itself where it is static, else its first part, which may have no nodes.
ir::Graph planned_part(ir::Graph graph);

/// Where a value lies: an offset into a storage, with strides in elements.
struct Place {
  int storage = -1;    // index into Layout::storages; -1: a graph input or a constant
  int64_t offset = 0;  // elements
  Dims dims, strides;
};

struct Storage {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps between which it is in use, inclusive
  int64_t offset = 0;       // bytes into the arena
};

struct Layout {
  std::vector<Place> places;  // per value
  std::vector<Storage> storages;
  std::vector<char> runs;  // per node: 0 when views make it free
  int64_t arena_bytes = 0, lower_bound = 0;
};

/// Assigns places: concat, split, slice and reshape become views where possible, the rest gets dense storage by
/// liveness. `by_depth`: for nodes that run in the order of their depths, those of one depth in any order or at once.
/// Throws Error(resource) where arena and inputs exceed Limits::memory_bytes; `on_gpu`: only where that was given, as
/// its default is what the host has.
Layout lay_out(const ir::Graph& graph, bool by_depth = false, bool on_gpu = false);
/// Of each node, the longest path from the inputs.
std::vector<int> depths(const ir::Graph& graph);
/// Gives storages offsets so that those in use together do not overlap; fills arena_bytes and lower_bound.
void assign_offsets(Layout& layout, int steps);

/// Strides of the same elements under other sizes, where no copy is needed.
bool reshape_strides(const Dims& dims, const Dims& strides, const Dims& to, Dims& to_strides);

/// The convolution that alone reads this pointwise one's result, one group for each of its channels or few; no_node
/// when there is none. Both may run as one step, at the place of the second, so inputs of the first stay alive until
/// there.
ir::NodeId second_of_pair(const ir::Graph& graph, ir::NodeId first);

/// Whether floating point steps of a plan add products in one rounding on every CPU: those of an engine in INT8, so
/// that it gives the same bits everywhere, unless it was made on a CPU that needs many instructions for that.
bool is_fused(const Plan& plan);
/// Lets kernels round the operands of this node to bf16 in a plan that is not of bf16 as a whole.
void let_round(ir::Node& node);
/// The problem that kernels of this node see.
backends::Problem problem_of(const ir::Graph& graph, ir::NodeId node, const Layout& layout, int threads,
                             const Plan& plan);
/// The same as kernels of a GPU see it.
backends::Problem device_problem_of(const ir::Graph& graph, ir::NodeId node, const Layout& layout, const Plan& plan);
/// The key under which a GPU's measurements of a problem are kept: the GPU's name and what a kernel sees.
std::string device_key(const cuda::Properties& device, const backends::Problem& problem);
/// What was measured of a problem on that GPU; on any where `device` is null. nullptr: nothing.
const Record* device_record(const Plan& plan, const backends::Problem& problem, const cuda::Properties* device);

/// The key of what was measured of a whole network, given its steps' keys in order.
std::string network_key(const std::vector<std::string>& keys);
/// The record of a network whose branches run beside each other.
inline constexpr const char* beside = "beside";

/// The record of a race: the fastest of all, and the others.
Record record_of(std::vector<Rival> timed);

/// The kernel that runs both nodes as one step where it was measured faster; nullptr: they run apart.
const backends::PairKernel* choose(const backends::Pair& pair, const Records& records);

/// The records of single nodes: with them every value between nodes is computed.
Records without_pairs(Records records);

/// The recorded kernel where it still accepts, also one recorded for another number of threads; else the first that
/// accepts.
const backends::Kernel& choose(const backends::Problem& problem, const Records& records);

/// A node of the ONNX model, and what became of it.
struct Source {
  std::string name, op;
  std::string fate = {};  // why no node of the plan's graph stands for it; "" where one does
  std::string into = {};  // the next ONNX node behind it that one stands for; "" for none
};

/// An engine's content.
struct Plan {
  ir::Graph graph;  // optimised, symbolic
  Shapes shapes;    // sizes of every input it was tuned for
  int threads = 1;
  bool strict = false;
  bool vendor = true;              // libraries of the GPU's vendor may serve
  std::string device = "cpu";      // or "cuda", "cuda:N"
  std::string precision = "fp32";  // or "tf32", "fp16", "bf16", "int8", "fp8"
  bool bf16 = false;               // on a CPU: convolutions and products of f32 may round their operands to bf16
  std::string isa;
  Records records;
  std::vector<Source> sources = {};  // every node of the model, in its order; none in engines of earlier versions
  Evidence evidence = {};            // of a calibration
};

/// Times the kernels of every step that has a choice, within `budget_seconds` (below 0: no limit), and fills
/// plan.records. Measurements of `known` and of plan.records that are of the kernels as this program has them are kept;
/// what remains is timed.
void tune(Plan& plan, const Records& known, double budget_seconds, const Progress& progress);
/// The same on the plan's GPU: every tactic of every kernel, in captured graphs.
void tune_cuda(Plan& plan, const Records& known, double budget_seconds, const Progress& progress);

}  // namespace tenon::plan
