// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/goal.h"
#include "backends/kernel.h"
#include "backends/schedule.h"
#include "ir/graph.h"
#include "passes/groups.h"
#include "plan/evidence.h"
#include "plan/steps.h"

/// From an optimised graph and concrete input sizes to steps with places in one arena.
namespace tenon::plan {

struct Plan;
using backends::Layout;
using backends::Place;
using backends::Storage;

/// A kernel that was timed beside others.
struct Candidate {
  std::string kernel;
  double microseconds = 0;  // `never`: it could not be made or run
  uint64_t source = 0;      // of what was measured; 0: not measured by this program
};
inline constexpr double never = 1e15;

/// Kernel chosen per problem signature, with its measured time (0: not measured).
struct Record {
  std::string kernel;
  double microseconds = 0;
  std::vector<Candidate> candidates = {};  // the others that were timed, the fastest first
  uint64_t source = 0;             // as a candidate's
};
using Records = std::map<std::string, Record>;
/// The record of nodes that run as several steps, not as one.
using backends::unfused;

/// A copy of the graph with these input sizes, inferred and folded. Sizes missing from `shapes`: a dynamic first axis
/// is 1, others throw Error(usage) naming the input; a size below 0 counts as missing. Throws Error(usage) for an
/// unknown input or sizes that contradict the model.
ir::Graph concretise(const ir::Graph& graph, const Shapes& shapes);
/// Whether every value has concrete sizes, so that memory can be planned.
bool is_static(const ir::Graph& graph);
/// A concretised graph in two: what has concrete sizes from the inputs on, and the rest, which runs node by node. The
/// rest takes the graph's inputs, then the first part's outputs.
struct Parts {
  ir::Graph head, tail;
};
Parts parts_of(const ir::Graph& graph);
/// What can be planned: the graph itself where it is static, else its first part, which may have no nodes.
ir::Graph planned_part(ir::Graph graph);

/// Assigns places: concat, split, slice and reshape become views where possible, the rest gets dense storage by
/// liveness. `by_depth`: for nodes that run in the order of their depths, those of one depth in any order or at once.
/// Throws Error(resource) where arena and inputs exceed Limits::memory_bytes; without `host_memory` only where that was
/// given, as its default is what the host has. With `placement` storages are placed in that order, or quickly where it
/// is one of others, instead of in the best that is found.
Layout lay_out(const ir::Graph& graph, bool by_depth = false, bool host_memory = true,
               const std::vector<int>* placement = nullptr);
/// Of each node, the longest path from the inputs.
std::vector<int> depths(const ir::Graph& graph);
/// Gives storages offsets so that those in use together do not overlap; fills placement, arena_bytes and lower_bound.
/// `may_rest`: memory that a step has read is no output of the next one where the arena hardly grows by it. `known`,
/// with a placement: the same storages with their offsets at other sizes, which are scaled where the arena is then no
/// more than 1.1 times lower_bound.
void assign_offsets(Layout& layout, int steps, bool may_rest, const std::vector<int>* placement = nullptr,
                    const std::vector<backends::Storage>* known = nullptr);

/// Strides of the same elements under other sizes, where no copy is needed.
bool reshape_strides(const Dims& dims, const Dims& strides, const Dims& to, Dims& to_strides);

/// Lets kernels round the operands of this node to bf16 in a plan that is not of bf16 as a whole.
void let_round(ir::Node& node);
/// The problem that kernels of this node see on the plan's device.
backends::Problem problem_of(const ir::Graph& graph, ir::NodeId node, const Layout& layout, int threads,
                             const Plan& plan);
/// The same for the host's kernels, where the device has none.
backends::Problem host_problem_of(const ir::Graph& graph, ir::NodeId node, const Layout& layout, int threads,
                                  const Plan& plan);
/// What a plan asks of the host for the steps that run there.
backends::Goal host_goal(const Plan& plan);
/// What was measured of a problem on the plan's device; where that is not here, on any that could be it. nullptr:
/// nothing.
const Record* record_of(const Plan& plan, const backends::Problem& problem);

/// The keys of a schedule's steps, in order.
std::vector<std::string> keys_of(const backends::Schedule& schedule);
/// The key of what was measured of a whole network, given its steps' keys in order.
std::string network_key(const std::vector<std::string>& keys);
/// The records of a network whose branches run at the same time, or one after the other.
inline constexpr const char* concurrent = "concurrent";
inline constexpr const char* sequential = "sequential";

/// A step's record with another of its candidates in front.
void prefer(Record& record, const std::string& kernel);
/// The record of what was timed: the fastest of all, and the others.
Record record_of(std::vector<Candidate> timed);

/// The records of single nodes: with them every value between nodes is computed.
Records without_groups(Records records);

/// The recorded kernel where it still accepts, also one recorded for another number of threads; else the first that
/// accepts.
const backends::Kernel& choose(const backends::Problem& problem, const Records& records);
/// What is recorded for a key of the plan's device; else for another number of threads, so that an engine gives the
/// same bits with any. nullptr: nothing.
const Record* record_for(const std::string& key, const Records& records);

/// The groups of a graph of concrete sizes that were measured faster as one step.
std::vector<passes::Group> chosen_groups(const ir::Graph& graph, const Plan& plan);
/// The graph of concrete sizes as the plan's device runs it: groups that were measured faster so are one node.
ir::Graph device_graph(ir::Graph graph, const Plan& plan);
/// By the names of their results: what was measured of a graph's groups as one step, and unfused.
std::map<std::string, Record> group_records(const ir::Graph& graph, const Plan& plan);

/// Puts steps in the order of the depths of their nodes.
void sort_by_depth(backends::Schedule& schedule);
enum class Branches : uint8_t { sequential, concurrent, as_recorded };
/// The steps of a graph as device_graph() gives it, by the kernels that the plan's records say.
backends::Schedule schedule(const Plan& plan, ir::Graph graph, int threads, Branches branches = Branches::as_recorded);

/// What a concrete graph is planned as: its first part where sizes of the rest depend on data and the device runs it.
/// Then, or where none of it is planned, the whole is what it was, and the rest runs node by node.
struct Planned {
  std::optional<ir::Graph> graph;         // with concrete sizes
  std::optional<ir::Graph> whole, rest;   // where sizes depend on data
};
Planned planned(ir::Graph concrete, const Plan& plan);
/// Sizes of all inputs: those given, else as the model states them, 1 for those that it leaves open.
Shapes sizes_of(const Plan& plan, const Shapes& shapes);
/// Sizes of `base`, with those given in their place; a size below 0 stays as it is in `base`.
Shapes merged(Shapes base, const Shapes& given);
/// Whether every input has sizes there.
bool covers(const Plan& plan, const Shapes& shapes);
/// The profile that holds these sizes; 0 where there are none. Throws Error(usage) naming what lies outside.
size_t profile_for(const Plan& plan, const Shapes& shapes);
/// Throws Error(usage) naming what lies outside of that one.
void check_profile(const Plan& plan, size_t profile, const Shapes& shapes);
/// Throws Error(usage) for a name that no profile has.
size_t profile_named(const Plan& plan, const std::string& name);
/// Gives the plan these profiles, in which inputs that are left out have the sizes of `shapes`. Throws Error(usage).
void set_profiles(Plan& plan, const std::vector<Profile>& profiles, const Shapes& shapes);
/// Throws Error(usage) where the plan's profiles are none of its graph's.
void check_profiles(const Plan& plan);

/// An output that the next run takes as an input, by their places.
struct Carried {
  size_t output, input;
};
std::vector<Carried> carried_of(const Plan& plan);
/// Throws Error(usage) where what is carried cannot be.
void check_carried(const Plan& plan);
/// As its user knows it.
std::string output_name(const ir::Graph& graph, size_t at);

/// What a step does: it launches a kernel that computes, copies data to other places, runs blocks by a condition or
/// again and again, or calls the host from a device.
enum class StepKind : uint8_t { launch, copy, branch, loop, call };
StepKind kind_of(const ir::Node& node, const backends::ScheduledStep& step);
std::string_view name(StepKind kind);

/// What runs, as text: buffers, then steps in order with what they do, tactics and operands, and behind each the bodies
/// that it runs.
std::string print(const backends::Schedule& schedule);

/// The program and device that steps are made for.
std::string maker_of(const Device& device);
/// What the plan's records say of a concrete graph, planned() before.
Steps make_steps(const Plan& plan, const ir::Graph& graph);
/// Makes the steps of every profile, or of `shapes`.
void make_steps(Plan& plan);

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
  Device device = {};
  backends::Goal goal = {};
  Records records;
  std::vector<Source> sources = {};  // every node of the model, in its order; none in engines of earlier versions
  Evidence evidence = {};            // of a calibration
  std::vector<Profile> profiles = {};  // that it is for; none: any sizes
  std::vector<Steps> steps = {};       // of each profile, or of `shapes`; none: not made yet
  std::vector<std::pair<std::string, std::string>> carried = {};  // outputs, and the inputs that take them
};

}  // namespace tenon::plan
