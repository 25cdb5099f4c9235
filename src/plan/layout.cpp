// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/limits.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/memory.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace tenon::plan {

bool reshape_strides(const Dims& dims, const Dims& strides, const Dims& to, Dims& to_strides) {
  // Walks both shapes from the inside, matching groups of axes with equal products.
  to_strides = to;
  size_t from_axis = dims.rank(), to_axis = to.rank();
  while (to_axis > 0 || from_axis > 0) {
    while (from_axis > 0 && dims[from_axis - 1] == 1) --from_axis;
    if (from_axis == 0) {
      while (to_axis > 0) {
        if (to[--to_axis] != 1) return false;
        to_strides[to_axis] = 1;
      }
      return true;
    }
    // A run of source axes that is contiguous: inner stride, total length.
    const int64_t inner = strides[from_axis - 1];
    int64_t run = dims[--from_axis];
    while (from_axis > 0 && (dims[from_axis - 1] == 1 || strides[from_axis - 1] == inner * run))
      run *= dims[--from_axis];
    int64_t filled = 1;
    while (to_axis > 0 && filled < run) {
      --to_axis;
      to_strides[to_axis] = inner * filled;
      filled *= to[to_axis];
      if (run % filled != 0) return false;
    }
    if (filled != run) return false;
    while (to_axis > 0 && to[to_axis - 1] == 1) to_strides[--to_axis] = inner * filled;
  }
  return true;
}

namespace {

struct Layouter {
  const ir::Graph& graph;
  Layout layout;
  std::vector<char> fixed;  // values whose place is decided
  int64_t limit;            // of bytes

  Layouter(const ir::Graph& g, bool host_memory) : graph(g), limit(limits_in_force().memory_bytes) {
    if (!host_memory) limit = given_memory_limit() > 0 ? given_memory_limit() : INT64_MAX - 1;
    layout.places.resize(graph.values.size());
    layout.runs.assign(graph.nodes.size(), 1);
    fixed.assign(graph.values.size(), 0);
    for (size_t id = 0; id < graph.values.size(); ++id) {
      const ir::Value& value = graph.values[id];
      if (!value.shape || !ir::is_constant(*value.shape)) continue;
      Dims dims;
      for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
      layout.places[id].dims = dims;
      if (bytes_of(static_cast<ir::ValueId>(id)) == INT64_MAX) refuse(value, INT64_MAX);
      layout.places[id].strides = backends::dense_strides(dims);
    }
  }

  const Dims& dims(ir::ValueId id) const { return layout.places[id].dims; }
  bool movable(ir::ValueId id) const {  // may be written into another value's storage
    return id != ir::no_value && !fixed[id] && !graph.value(id).is_constant() &&
           graph.value(id).producer != ir::no_node;
  }

  int64_t bytes_of(ir::ValueId id) const {
    int64_t bytes = static_cast<int64_t>(size_of(graph.value(id).dtype));
    for (int64_t size : dims(id))
      if (size == 0) return 0;
    for (int64_t size : dims(id))
      if (__builtin_mul_overflow(bytes, size, &bytes)) return INT64_MAX;
    return bytes;
  }

  [[noreturn]] void refuse(const ir::Value& largest, int64_t bytes) const {
    const ir::Node* node = largest.producer == ir::no_node ? nullptr : &graph.node(largest.producer);
    throw Error(Code::resource, "the model needs more memory than it may take",
                {.where = (node ? "node " + node->label() + " (" + node->op + "), " : std::string()) + "tensor \"" +
                          largest.name + "\" " + ir::str(*largest.shape),
                 .why = "it takes " + (bytes == INT64_MAX ? "more than 64 bits can count" : memory_text(bytes)) +
                        ", the limit is " + memory_text(limit),
                 .hint = "raise the limit with --max-memory, or give smaller --shapes",
                 .node = node ? node->label() : std::string()});
  }

  /// Before anything is allocated: the arena must fit beside the inputs.
  void check_memory() const {
    int64_t bytes = layout.arena_bytes;
    ir::ValueId largest = ir::no_value;
    const auto look = [&](ir::ValueId id) {
      if (id != ir::no_value && !graph.value(id).is_constant() &&
          (largest == ir::no_value || bytes_of(id) > bytes_of(largest)))
        largest = id;
    };
    for (ir::ValueId id : graph.inputs) {
      look(id);
      if (__builtin_add_overflow(bytes, bytes_of(id), &bytes)) bytes = INT64_MAX;
    }
    for (const ir::Node& node : graph.nodes)
      for (ir::ValueId id : node.outputs) look(id);
    if (bytes > limit && largest != ir::no_value) refuse(graph.value(largest), bytes);
  }

  void own_storage(ir::ValueId id) {
    Place& place = layout.places[id];
    place.storage = static_cast<int>(layout.storages.size());
    place.offset = 0;
    place.strides = backends::dense_strides(place.dims);
    const int64_t bytes = bytes_of(id);
    if (bytes > limit) refuse(graph.value(id), bytes);
    layout.storages.push_back({bytes, INT32_MAX, -1, 0});
    fixed[id] = 1;
  }

  static bool is_alias(const ir::Node& node) { return ops::has_trait(node.op, ops::Trait::view); }

  static bool permutes(const ir::Node& node) {
    return ops::has_trait(node.op, ops::Trait::permutes) && node.has("perm");
  }

  /// Whether all who read it take axes in any order.
  bool is_transposed_view(const ir::Node& node) const {
    if (!permutes(node) || graph.is_output(node.outputs[0])) return false;
    const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
    return std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
      return ops::has_trait(graph.node(user).op, ops::Trait::any_order) &&
             std::count(graph.node(user).inputs.begin(), graph.node(user).inputs.begin() + 3, node.outputs[0]) > 0;
    });
  }
  /// Where the result of a Transpose lies that moves nothing.
  Place transposed(const ir::Node& node) const {
    Place place = layout.places[node.inputs[0]];
    const Dims strides = place.strides;
    const std::vector<int64_t> perm = node.integers("perm");
    place.dims = dims(node.outputs[0]);
    for (size_t axis = 0; axis < perm.size(); ++axis) place.strides[axis] = strides[static_cast<size_t>(perm[axis])];
    return place;
  }

  int64_t concat_axis(const ir::Node& node) const {
    const int64_t rank = static_cast<int64_t>(dims(node.outputs[0]).rank()), axis = node.integer("axis", 0);
    return axis < 0 ? axis + rank : axis;
  }

  Place slice(const Place& whole, size_t axis, int64_t begin, const Dims& part) const {
    Place place = whole;
    place.dims = part;
    place.offset += begin * whole.strides[axis];
    return place;
  }

  /// Where a value's only user, an elementwise node, writes its result: the value may lie there too.
  const Place* in_place(ir::ValueId id) const {
    if (id == ir::no_value || graph.value(id).users.size() != 1 || graph.is_output(id)) return nullptr;
    const ir::Node& user = graph.node(graph.value(id).users[0]);
    if (!ops::has_trait(user.op, ops::Trait::elementwise) || user.outputs.size() != 1 || !fixed[user.outputs[0]])
      return nullptr;
    const ir::ValueId out = user.outputs[0];
    if (!(dims(out) == dims(id)) || graph.value(out).dtype != graph.value(id).dtype) return nullptr;
    // One input alone can lie there.
    for (ir::ValueId other : user.inputs)
      if (other != id && other != ir::no_value && same(layout.places[other], layout.places[out])) return nullptr;
    return &layout.places[out];
  }

  void backward(const ir::Node& node) {
    if (ops::has_trait(node.op, ops::Trait::joins)) {
      const ir::ValueId out = node.outputs[0];
      if (!fixed[out]) own_storage(out);
      const size_t axis = static_cast<size_t>(concat_axis(node));
      int64_t begin = 0;
      for (size_t at = 0; at < node.inputs.size(); ++at) {
        const ir::ValueId in = node.inputs[at];
        if (movable(in) && std::count(node.inputs.begin(), node.inputs.end(), in) == 1) {
          layout.places[in] = slice(layout.places[out], axis, begin, dims(in));
          fixed[in] = 1;
        }
        begin += dims(in)[axis];
      }
    } else if (is_alias(node)) {
      const ir::ValueId in = node.inputs[0], out = node.outputs[0];
      Dims strides;
      if (fixed[out] && movable(in) && reshape_strides(dims(out), layout.places[out].strides, dims(in), strides)) {
        layout.places[in] = {layout.places[out].storage, layout.places[out].offset, dims(in), strides};
        fixed[in] = 1;
      }
    } else if (permutes(node) && movable(node.inputs[0]) &&
               ops::has_trait(graph.producer(node.inputs[0])->op, ops::Trait::any_order) &&
               graph.only_user(node.inputs[0]) != ir::no_node) {
      const ir::ValueId in = node.inputs[0], out = node.outputs[0];
      if (!fixed[out]) own_storage(out);
      const std::vector<int64_t> perm = node.integers("perm");
      Place place{layout.places[out].storage, layout.places[out].offset, dims(in), dims(in)};
      for (size_t axis = 0; axis < perm.size(); ++axis)
        place.strides[static_cast<size_t>(perm[axis])] = layout.places[out].strides[axis];
      layout.places[in] = place;
      fixed[in] = 1;
    } else if (ops::has_trait(node.op, ops::Trait::splits) && movable(node.inputs[0])) {
      // All parts side by side in one storage: the whole can be written there at once.
      const ir::ValueId in = node.inputs[0];
      int64_t axis = node.integer("axis", 0);
      if (axis < 0) axis += static_cast<int64_t>(dims(in).rank());
      const auto place_of = [&](ir::ValueId out) {
        return out == ir::no_value ? nullptr : fixed[out] ? &layout.places[out] : in_place(out);
      };
      const Place* first = place_of(node.outputs[0]);
      int64_t offset = first ? first->offset : 0;
      for (ir::ValueId out : node.outputs) {
        const Place* place = place_of(out);
        if (!first || !place || place->storage < 0 || place->storage != first->storage || place->offset != offset ||
            !(place->strides == first->strides))
          return;
        offset += dims(out)[axis] * place->strides[axis];
      }
      for (ir::ValueId out : node.outputs)
        if (!fixed[out]) layout.places[out] = *place_of(out), fixed[out] = 1;
      layout.places[in] = {first->storage, first->offset, dims(in), first->strides};
      fixed[in] = 1;
    }
  }

  bool same(const Place& a, const Place& b) const {
    return a.storage >= 0 && a.storage == b.storage && a.offset == b.offset && a.strides == b.strides;
  }

  std::optional<Place> view_of_slice(const ir::Node& node) const {
    const Place& in = layout.places[node.inputs[0]];
    const Tensor* starts = graph.constant(node.inputs[1]);
    const Tensor* axes = node.inputs.size() > 3 ? graph.constant(node.inputs[3]) : nullptr;
    const Tensor* steps = node.inputs.size() > 4 ? graph.constant(node.inputs[4]) : nullptr;
    if (!starts || (node.inputs.size() > 3 && node.inputs[3] != ir::no_value && !axes) ||
        (node.inputs.size() > 4 && node.inputs[4] != ir::no_value && !steps))
      return std::nullopt;
    const auto at = [](const Tensor& tensor, int64_t index) {
      return tensor.dtype() == DType::i32 ? static_cast<int64_t>(tensor.data<int32_t>()[index])
                                          : tensor.data<int64_t>()[index];
    };
    Place place = in;
    place.dims = dims(node.outputs[0]);
    for (int64_t k = 0; k < starts->elements(); ++k) {
      int64_t axis = axes ? at(*axes, k) : k;
      if (axis < 0) axis += static_cast<int64_t>(in.dims.rank());
      const int64_t step = steps ? at(*steps, k) : 1;
      if (step < 1 || axis < 0 || axis >= static_cast<int64_t>(in.dims.rank())) return std::nullopt;
      int64_t start = at(*starts, k);
      if (start < 0) start += in.dims[axis];
      start = std::clamp<int64_t>(start, 0, in.dims[axis]);
      place.offset += start * in.strides[axis];
      place.strides[axis] = in.strides[axis] * step;
    }
    if (place.dims.rank() > 0 && place.dims.back() > 1 && place.strides[place.dims.rank() - 1] != 1)
      return std::nullopt;
    return place;
  }

  void forward(ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const ir::ValueId in = node.inputs.empty() ? ir::no_value : node.inputs[0];
    const bool in_arena = in != ir::no_value && layout.places[in].storage >= 0;
    if (is_alias(node)) {
      const ir::ValueId out = node.outputs[0];
      Dims strides;
      const bool fits = in_arena && reshape_strides(dims(in), layout.places[in].strides, dims(out), strides);
      if (fits && !fixed[out]) {
        layout.places[out] = {layout.places[in].storage, layout.places[in].offset, dims(out), strides};
        fixed[out] = 1;
        layout.runs[id] = 0;
      } else if (fits &&
                 same(layout.places[out], {layout.places[in].storage, layout.places[in].offset, dims(out), strides})) {
        layout.runs[id] = 0;
      }
    } else if (ops::has_trait(node.op, ops::Trait::splits) && in_arena) {
      int64_t axis = node.integer("axis", 0), begin = 0;
      if (axis < 0) axis += static_cast<int64_t>(dims(in).rank());
      bool all = true;
      for (ir::ValueId out : node.outputs) {
        if (out == ir::no_value) {
          all = false;
          continue;
        }
        const Place part = slice(layout.places[in], axis, begin, dims(out));
        if (!fixed[out]) layout.places[out] = part, fixed[out] = 1;
        else all &= same(layout.places[out], part);
        begin += dims(out)[axis];
      }
      if (all) layout.runs[id] = 0;
    } else if (ops::has_trait(node.op, ops::Trait::slices) && in_arena && !fixed[node.outputs[0]]) {
      if (const auto view = view_of_slice(node)) {
        layout.places[node.outputs[0]] = *view;
        fixed[node.outputs[0]] = 1;
        layout.runs[id] = 0;
      }
    } else if (permutes(node) && in_arena) {
      const ir::ValueId out = node.outputs[0];
      if (!fixed[out] && is_transposed_view(node)) layout.places[out] = transposed(node), fixed[out] = 1;
      if (fixed[out] && same(layout.places[out], transposed(node))) layout.runs[id] = 0;
    } else if (ops::has_trait(node.op, ops::Trait::joins)) {
      const size_t axis = static_cast<size_t>(concat_axis(node));
      int64_t begin = 0;
      bool all = true;
      for (ir::ValueId input : node.inputs) {
        all &= same(layout.places[input], slice(layout.places[node.outputs[0]], axis, begin, dims(input)));
        begin += dims(input)[axis];
      }
      if (all) layout.runs[id] = 0;
    }
    for (ir::ValueId out : node.outputs)
      if (out != ir::no_value && !fixed[out] && !graph.value(out).is_constant()) own_storage(out);
  }

  void lifetimes(bool by_depth) {
    const auto touch = [&](ir::ValueId id, int step) {
      if (id == ir::no_value || layout.places[id].storage < 0) return;
      Storage& storage = layout.storages[layout.places[id].storage];
      storage.first = std::min(storage.first, step);
      storage.last = std::max(storage.last, step);
    };
    const int count = static_cast<int>(graph.nodes.size());
    const std::vector<int> depth = by_depth ? depths(graph) : std::vector<int>();
    for (int step = 0; step < count; ++step) {
      const int when = by_depth ? depth[static_cast<size_t>(step)] : step;
      for (ir::ValueId in : graph.nodes[step].inputs) touch(in, when);
      for (ir::ValueId out : graph.nodes[step].outputs) touch(out, when);
    }
    for (ir::ValueId out : graph.outputs) touch(out, count);
    assign_offsets(layout, count);
  }
};

}  // namespace

std::vector<int> depths(const ir::Graph& graph) {
  std::vector<int> depth(graph.nodes.size(), 0);
  for (size_t id = 0; id < graph.nodes.size(); ++id)
    for (ir::ValueId in : graph.nodes[id].inputs)
      if (in != ir::no_value && graph.value(in).producer != ir::no_node)
        depth[id] = std::max(depth[id], depth[static_cast<size_t>(graph.value(in).producer)] + 1);
  return depth;
}

Layout lay_out(const ir::Graph& graph, bool by_depth, bool host_memory) {
  Layouter layouter(graph, host_memory);
  for (ir::ValueId out : graph.outputs)
    if (layouter.movable(out)) layouter.own_storage(out);
  for (size_t at = graph.nodes.size(); at-- > 0;) layouter.backward(graph.nodes[at]);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) layouter.forward(id);
  layouter.lifetimes(by_depth);
  layouter.check_memory();
  return std::move(layouter.layout);
}

void let_round(ir::Node& node) { node.attributes[backends::rounding] = std::string("bf16"); }

}  // namespace tenon::plan
