// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "passes/layout.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// One step of a reshape: axes [from, from_end) of the input, without those of one element, become [to, to_end) of the
/// output.
struct Group {
  std::vector<size_t> from, to;
};

std::optional<std::vector<Group>> groups_of(const ir::Shape& from, const ir::Shape& to) {
  std::vector<size_t> left, right;
  for (size_t at = 0; at < from.size(); ++at)
    if (!(from[at] == ir::Dim(1))) left.push_back(at);
  for (size_t at = 0; at < to.size(); ++at)
    if (!(to[at] == ir::Dim(1))) right.push_back(at);
  std::vector<Group> groups;
  size_t a = 0, b = 0;
  while (a < left.size() && b < right.size()) {
    Group group{{left[a]}, {right[b]}};
    ir::Dim x = from[left[a++]], y = to[right[b++]];
    while (!(x == y)) {
      const bool both = x.is_constant() && y.is_constant();
      if ((both && x.value() < y.value()) || (!both && y.exact_div(x))) {
        if (a == left.size()) return std::nullopt;
        group.from.push_back(left[a]);
        x = x * from[left[a++]];
      } else if (both || x.exact_div(y)) {
        if (b == right.size()) return std::nullopt;
        group.to.push_back(right[b]);
        y = y * to[right[b++]];
      } else {
        return std::nullopt;
      }
    }
    groups.push_back(std::move(group));
  }
  return a == left.size() && b == right.size() ? std::optional(groups) : std::nullopt;
}

/// The order of the output when the input lies in order `perm`; nullopt where a group's axes do not lie side by side.
std::optional<Perm> carried(const std::vector<Group>& groups, const ir::Shape& from, const ir::Shape& to,
                            const Perm& perm) {
  Perm result;
  std::vector<bool> placed(to.size());
  for (size_t at = 0; at < perm.size();) {
    if (from[perm[at]] == ir::Dim(1)) {
      ++at;
      continue;
    }
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& g) { return static_cast<int64_t>(g.from[0]) == perm[at]; });
    if (group == groups.end()) return std::nullopt;
    size_t taken = 0;
    for (; taken < group->from.size(); ++at) {
      if (at == perm.size()) return std::nullopt;
      if (from[perm[at]] == ir::Dim(1)) continue;
      if (perm[at] != static_cast<int64_t>(group->from[taken])) return std::nullopt;
      ++taken;
    }
    for (size_t axis : group->to) {
      result.push_back(static_cast<int64_t>(axis));
      placed[axis] = true;
    }
  }
  // Axes of one element may stand anywhere: a leading one first, a channel of a map last, others after their neighbour.
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (placed[axis]) continue;
    const auto item = static_cast<int64_t>(axis);
    if (axis == 1 && to.size() == 4) {
      result.push_back(item);
    } else if (axis == 0) {
      result.insert(result.begin(), item);
    } else {
      const auto neighbour = std::find(result.begin(), result.end(), item - 1);
      result.insert(neighbour == result.end() ? neighbour : neighbour + 1, item);
    }
  }
  return result;
}

}  // namespace

bool carry_reshape(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || graph.constant(node.inputs[0])) return false;
  const auto groups = groups_of(*from, *to);
  if (!groups) return false;
  for (const Layout::Form& form : layout.forms(node.inputs[0])) {
    if (is_identity(form.perm)) return false;
    const auto perm = carried(*groups, *from, *to, form.perm);
    if (!perm) continue;
    const ir::ValueId value = form.value;
    const auto list = reshape_list(graph, graph.value(node.outputs[0]).name + ".shape", permuted(*from, form.perm),
                                   permuted(*to, *perm));
    if (!list) continue;
    layout.rewrite(id, {value, *list}, {}, *perm);
    return true;
  }
  return false;
}

}  // namespace tenon::passes
