// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>
#include <tenon/limits.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/memory.h"
#include "plan/layout.h"

namespace tenon::plan {

namespace {

using Kind = LayoutFacts::Kind;

constexpr int64_t most_small_rows = 16, most_small_depth = 32;  // of matrices that devices multiply on plain units

struct Layouter {
  const LayoutRequest& request;
  const ir::Graph& graph;
  Layout layout;
  std::vector<char> fixed;  // values whose place is decided
  int64_t limit;            // of bytes

  Layouter(const LayoutRequest& wanted, const std::vector<Dims>& sizes)
      : request(wanted), graph(wanted.graph), limit(limits_in_force().memory_bytes) {
    if (!request.host_memory) limit = given_memory_limit() > 0 ? given_memory_limit() : INT64_MAX - 1;
    layout.places.resize(graph.values.size());
    layout.runs.assign(graph.nodes.size(), 1);
    fixed.assign(graph.values.size(), 0);
    for (size_t id = 0; id < graph.values.size(); ++id) {
      layout.places[id].dims = sizes[id];
      if (bytes_of(static_cast<ir::ValueId>(id)) == INT64_MAX) refuse(static_cast<ir::ValueId>(id), INT64_MAX);
      layout.places[id].strides = backends::dense_strides(sizes[id]);
    }
  }

  const LayoutFacts::Node& facts(ir::NodeId id) const { return request.facts.nodes[static_cast<size_t>(id)]; }
  const Tensor* constant(ir::ValueId id) const {
    for (const auto& [value, tensor] : request.decided)
      if (value == id) return &tensor;
    return graph.constant(id);
  }
  const Dims& dims(ir::ValueId id) const { return layout.places[id].dims; }
  bool movable(ir::ValueId id) const {  // may be written into another value's storage
    return id != ir::no_value && !fixed[id] && !graph.value(id).is_constant() && may_be_part(id) &&
           graph.value(id).producer != ir::no_node;
  }
  /// Bodies on a device take what lies in one piece; the host copies what does not.
  bool may_be_part(ir::ValueId id) const {
    return request.host_memory || !request.facts.whole[static_cast<size_t>(id)];
  }

  int64_t bytes_of(ir::ValueId id) const {
    int64_t bytes = static_cast<int64_t>(size_of(graph.value(id).dtype));
    for (int64_t size : dims(id))
      if (size == 0) return 0;
    for (int64_t size : dims(id))
      if (__builtin_mul_overflow(bytes, size, &bytes)) return INT64_MAX;
    return bytes;
  }

  [[noreturn]] void refuse(ir::ValueId id, int64_t bytes) const {
    const ir::Value& largest = graph.value(id);
    const ir::Node* node = largest.producer == ir::no_node ? nullptr : &graph.node(largest.producer);
    throw Error(Code::resource, "the model needs more memory than the limit allows",
                {.where = (node ? "node " + node->label() + " (" + node->op + "), " : std::string()) + "tensor \"" +
                          largest.name + "\" " + ir::str(ir::Shape(dims(id).begin(), dims(id).end())),
                 .why = "it takes " + (bytes == INT64_MAX ? "more bytes than 64 bits can count" : memory_text(bytes)) +
                        ", the limit is " + memory_text(limit),
                 .hint = "raise the limit with --max-memory, or give smaller --shapes",
                 .node = node ? node->label() : std::string()});
  }

  /// Before anything is allocated: the arena must fit beside the inputs.
  void check_memory() const {
    int64_t bytes = layout.arena_bytes;
    for (ir::ValueId id : graph.inputs)
      if (__builtin_add_overflow(bytes, bytes_of(id), &bytes)) bytes = INT64_MAX;
    if (bytes <= limit) return;
    ir::ValueId largest = ir::no_value;
    const auto look = [&](ir::ValueId id) {
      if (id != ir::no_value && !graph.value(id).is_constant() &&
          (largest == ir::no_value || bytes_of(id) > bytes_of(largest)))
        largest = id;
    };
    for (ir::ValueId id : graph.inputs) look(id);
    for (const ir::Node& node : graph.nodes)
      for (ir::ValueId id : node.outputs) look(id);
    if (largest != ir::no_value) refuse(largest, bytes);
  }

  void own_storage(ir::ValueId id) {
    Place& place = layout.places[id];
    place.storage = static_cast<int>(layout.storages.size());
    place.offset = 0;
    place.strides = backends::dense_strides(place.dims);
    const int64_t bytes = bytes_of(id);
    if (bytes > limit) refuse(id, bytes);
    layout.storages.push_back({bytes, INT32_MAX, -1, 0});
    fixed[id] = 1;
  }

  /// Where the result of a Transpose lies that moves nothing.
  Place transposed(ir::NodeId id) const {
    const ir::Node& node = graph.node(id);
    Place place = layout.places[node.inputs[0]];
    const Dims strides = place.strides;
    const std::vector<int64_t>& perm = facts(id).perm;
    place.dims = dims(node.outputs[0]);
    for (size_t axis = 0; axis < perm.size(); ++axis) place.strides[axis] = strides[static_cast<size_t>(perm[axis])];
    return place;
  }

  /// Whether matrices are so small that a product on a device takes their elements one by one, in any order.
  bool is_small_product(ir::NodeId id) const {
    const ir::Node& node = graph.node(id);
    const Dims &a = dims(node.inputs[0]), &b = dims(node.inputs[1]);
    return a.rank() >= 2 && b.rank() >= 2 && std::min(a[a.rank() - 2], b.back()) <= most_small_rows &&
           a.back() <= most_small_depth;
  }

  /// Whether products on a device, which take any strides, read the operand of a Transpose no slower than its result:
  /// rows stay what they are, those of the result come in no chunks of 16 bytes, or matrices are small.
  bool is_read_as_well(ir::NodeId id) const {
    const std::vector<int64_t>& perm = facts(id).perm;
    if (request.host_memory || !facts(id).factor || perm.empty()) return false;
    const ir::ValueId out = graph.node(id).outputs[0];
    const std::vector<ir::NodeId>& users = graph.value(out).users;
    return perm.back() + 1 == static_cast<int64_t>(perm.size()) || dims(out).back() % 8 != 0 ||
           std::all_of(users.begin(), users.end(), [&](ir::NodeId user) { return is_small_product(user); });
  }

  /// Whether what writes the operand of a Transpose may as well write its result. A product of small matrices has
  /// neighbouring threads along its columns or from product to product.
  bool is_written_as_well(ir::NodeId id) const {
    if (facts(id).transposed_write || (facts(id).device_write && !request.host_memory)) return true;
    const std::vector<int64_t>& perm = facts(id).perm;
    return !request.host_memory && facts(id).product_write && !perm.empty() &&
           perm.back() + 2 != static_cast<int64_t>(perm.size()) &&
           is_small_product(graph.value(graph.node(id).inputs[0]).producer);
  }

  /// The axis that a node names, counted from the front of that value.
  size_t axis_of(ir::NodeId id, ir::ValueId of) const {
    const int64_t axis = facts(id).axis;
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims(of).rank()) : axis);
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
    if (!facts(graph.value(id).users[0]).elementwise || user.outputs.size() != 1 || !fixed[user.outputs[0]])
      return nullptr;
    const ir::ValueId out = user.outputs[0];
    if (!(dims(out) == dims(id)) || graph.value(out).dtype != graph.value(id).dtype) return nullptr;
    // One input alone can lie there.
    for (ir::ValueId other : user.inputs)
      if (other != id && other != ir::no_value && same(layout.places[other], layout.places[out])) return nullptr;
    return &layout.places[out];
  }

  /// Where the inputs of a Concat lie one behind the other already, as those of a longer one, the result is there.
  std::optional<Place> side_by_side(ir::NodeId id) const {
    const ir::Node& node = graph.node(id);
    const ir::ValueId out = node.outputs[0];
    const size_t axis = axis_of(id, out);
    Place place = layout.places[node.inputs[0]];
    int64_t offset = place.offset;
    for (const ir::ValueId in : node.inputs) {
      const Place& part = layout.places[in];
      if (!fixed[in] || part.storage < 0 || part.storage != place.storage || part.offset != offset ||
          !(part.strides == place.strides))
        return std::nullopt;
      offset += part.dims[axis] * part.strides[axis];
    }
    place.dims = dims(out);
    return place;
  }

  void backward(ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const Kind kind = facts(id).kind;
    if (kind == Kind::concat) {
      const ir::ValueId out = node.outputs[0];
      if (const auto place = fixed[out] ? std::nullopt : side_by_side(id)) layout.places[out] = *place, fixed[out] = 1;
      if (!fixed[out]) own_storage(out);
      const size_t axis = axis_of(id, out);
      int64_t begin = 0;
      for (size_t at = 0; at < node.inputs.size(); ++at) {
        const ir::ValueId in = node.inputs[at];
        if (movable(in) && std::count(node.inputs.begin(), node.inputs.end(), in) == 1) {
          layout.places[in] = slice(layout.places[out], axis, begin, dims(in));
          fixed[in] = 1;
        }
        begin += dims(in)[axis];
      }
    } else if (kind == Kind::view) {
      const ir::ValueId in = node.inputs[0], out = node.outputs[0];
      Dims strides;
      if (fixed[out] && movable(in) && reshape_strides(dims(out), layout.places[out].strides, dims(in), strides) &&
          (!request.host_memory || has_rows(dims(in), strides))) {
        layout.places[in] = {layout.places[out].storage, layout.places[out].offset, dims(in), strides};
        fixed[in] = 1;
      }
    } else if (kind == Kind::transpose && is_written_as_well(id) && movable(node.inputs[0])) {
      const ir::ValueId in = node.inputs[0], out = node.outputs[0];
      if (!fixed[out]) own_storage(out);
      const std::vector<int64_t>& perm = facts(id).perm;
      Place place{layout.places[out].storage, layout.places[out].offset, dims(in), dims(in)};
      for (size_t axis = 0; axis < perm.size(); ++axis)
        place.strides[static_cast<size_t>(perm[axis])] = layout.places[out].strides[axis];
      layout.places[in] = place;
      fixed[in] = 1;
    } else if (kind == Kind::split && movable(node.inputs[0])) {
      // All parts side by side in one storage: the whole can be written there at once.
      const ir::ValueId in = node.inputs[0];
      const size_t axis = axis_of(id, in);
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

  /// Whether the elements of a row are neighbours: the kernels of a CPU refuse others.
  static bool has_rows(const Dims& dims, const Dims& strides) {
    return dims.rank() == 0 || dims.back() <= 1 || strides.back() == 1;
  }

  /// Whether elements lie at the same places; how far those of an axis of one element would lie apart says nothing.
  bool same(const Place& a, const Place& b) const {
    if (a.storage < 0 || a.storage != b.storage || a.offset != b.offset) return false;
    if (!(a.dims == b.dims)) return a.strides == b.strides;
    for (size_t axis = 0; axis < a.dims.rank(); ++axis)
      if (a.dims[axis] != 1 && a.strides[axis] != b.strides[axis]) return false;
    return true;
  }

  std::optional<Place> view_of_slice(const ir::Node& node) const {
    const Place& in = layout.places[node.inputs[0]];
    const Tensor* starts = constant(node.inputs[1]);
    const Tensor* axes = node.inputs.size() > 3 ? constant(node.inputs[3]) : nullptr;
    const Tensor* steps = node.inputs.size() > 4 ? constant(node.inputs[4]) : nullptr;
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
    if (!has_rows(place.dims, place.strides)) return std::nullopt;
    return place;
  }

  void forward(ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const Kind kind = facts(id).kind;
    const ir::ValueId in = node.inputs.empty() ? ir::no_value : node.inputs[0];
    const bool in_arena = in != ir::no_value && layout.places[in].storage >= 0;
    if (kind == Kind::view) {
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
    } else if (kind == Kind::split && in_arena) {
      const size_t axis = axis_of(id, in);
      int64_t begin = 0;
      bool all = true;
      for (ir::ValueId out : node.outputs) {
        if (out == ir::no_value) {
          all = false;
          continue;
        }
        const Place part = slice(layout.places[in], axis, begin, dims(out));
        if (!fixed[out] && !may_be_part(out)) own_storage(out);
        if (!fixed[out]) layout.places[out] = part, fixed[out] = 1;
        else all &= same(layout.places[out], part);
        begin += dims(out)[axis];
      }
      if (all) layout.runs[id] = 0;
    } else if (kind == Kind::slice && in_arena && !fixed[node.outputs[0]] && may_be_part(node.outputs[0])) {
      if (const auto view = view_of_slice(node)) {
        layout.places[node.outputs[0]] = *view;
        fixed[node.outputs[0]] = 1;
        layout.runs[id] = 0;
      }
    } else if (kind == Kind::transpose && in_arena) {
      const ir::ValueId out = node.outputs[0];
      const bool is_view = facts(id).transposed_view || is_read_as_well(id);
      if (!fixed[out] && is_view) layout.places[out] = transposed(id), fixed[out] = 1;
      if (fixed[out] && same(layout.places[out], transposed(id))) layout.runs[id] = 0;
    } else if (kind == Kind::concat) {
      const size_t axis = axis_of(id, node.outputs[0]);
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

  void lifetimes() {
    const bool by_depth = request.by_depth;
    const auto touch = [&](ir::ValueId id, int step) {
      if (id == ir::no_value || layout.places[id].storage < 0) return;
      Storage& storage = layout.storages[layout.places[id].storage];
      storage.first = std::min(storage.first, step);
      storage.last = std::max(storage.last, step);
    };
    const int count = static_cast<int>(graph.nodes.size());
    for (int step = 0; step < count; ++step) {
      const int when = by_depth ? request.facts.depths[static_cast<size_t>(step)] : step;
      for (ir::ValueId in : graph.nodes[step].inputs) touch(in, when);
      for (ir::ValueId out : graph.nodes[step].outputs) touch(out, when);
    }
    for (ir::ValueId out : graph.outputs) touch(out, count);
    assign_offsets(layout, count, request.host_memory, request.placement, request.known);
  }
};

}  // namespace

Layout lay_out(const LayoutRequest& request, const std::vector<Dims>& sizes) {
  const ir::Graph& graph = request.graph;
  Layouter layouter(request, sizes);
  for (ir::ValueId out : graph.outputs)
    if (layouter.movable(out)) layouter.own_storage(out);
  for (auto id = static_cast<ir::NodeId>(graph.nodes.size()); id-- > 0;) layouter.backward(id);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) layouter.forward(id);
  layouter.lifetimes();
  layouter.check_memory();
  return std::move(layouter.layout);
}

Layout lay_out(const ir::Graph& graph, bool by_depth, bool host_memory, const std::vector<int>* placement) {
  std::vector<Dims> sizes(graph.values.size());
  for (size_t id = 0; id < sizes.size(); ++id) {
    const std::optional<ir::Shape>& shape = graph.values[id].shape;
    if (shape && ir::is_constant(*shape))
      for (const ir::Dim& dim : *shape) sizes[id].push_back(dim.value());
  }
  return lay_out({graph, layout_facts(graph), {}, by_depth, host_memory, placement}, sizes);
}

void let_round(ir::Node& node) { node.attributes[backends::rounding] = std::string("bf16"); }

}  // namespace tenon::plan
