// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/pointwise_pair.h"
#include "passes/groups.h"

namespace tenon::passes::group_pointwise_pair {
namespace {

constexpr int64_t wide_step = 64, most_wide = 1024, most_narrow = 256;  // channels

bool is_pointwise(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Conv" && node.op != "tenon:Int8Conv") return false;
  if (node.text("layout", "") != "NHWC" || node.text("input_layout", "") == "NCHW" || node.integer("group", 1) != 1 ||
      node.text("auto_pad", "NOTSET") != "NOTSET")
    return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (!weights || weights->dims().rank() != 4) return false;
  const auto all = [&](const char* name, int64_t value) {
    const std::vector<int64_t> list = node.integers(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t one) { return one == value; });
  };
  return weights->dims()[2] == 1 && weights->dims()[3] == 1 && all("strides", 1) && all("pads", 0);
}

/// Of 16 bits from end to end, or of bytes.
bool is_narrow_type(const ir::Graph& graph, const ir::Node& node) {
  const DType x = graph.value(node.inputs[0]).dtype, y = graph.value(node.outputs[0]).dtype;
  return x == y && (node.op == "Conv" ? x == DType::f16 || x == DType::bf16 : x == DType::u8);
}

/// A pointwise convolution that narrows what another one widened, where others read that as well: as a block of a
/// ResNet begins with what the last one ends with. What nobody else reads need not be stored at all, and is no such
/// pair.
std::optional<Group> pointwise_pair_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& second = graph.node(id);
  if (taken.count(id) || !is_pointwise(graph, second) || !second.text("residual", "").empty()) return std::nullopt;
  const ir::ValueId wide = second.inputs[0];
  const ir::NodeId maker = graph.value(wide).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(wide) != ir::no_node) return std::nullopt;
  const ir::Node& first = graph.node(maker);
  if (first.op != second.op || !is_pointwise(graph, first)) return std::nullopt;
  if (!is_narrow_type(graph, first) || !is_narrow_type(graph, second)) return std::nullopt;
  const Dims &w = graph.constant(first.inputs[1])->dims(), &w2 = graph.constant(second.inputs[1])->dims();
  const int64_t in = w[1], middle = w[0], out = w2[0];
  if (in >= middle || out >= middle || middle % wide_step || middle > most_wide || out > most_narrow)
    return std::nullopt;
  const ir::OpId op = first.op == "Conv" ? "tenon:PointwisePair" : "tenon:Int8PointwisePair";
  return Group{{maker, id},
               op,
               ops::pointwise_pair_inputs(first, second),
               {wide, second.outputs[0]},
               ops::pointwise_pair_attributes(first, second)};
}

const GroupRegistrar registered("tenon:PointwisePair", pointwise_pair_at);

}  // namespace
}  // namespace tenon::passes::group_pointwise_pair
