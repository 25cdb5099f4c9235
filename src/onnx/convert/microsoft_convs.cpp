// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Windows of com.microsoft: convolutions that take an activation and a sum along, and those whose channels lie last.
namespace tenon::onnx::microsoft_convs {
namespace {

using namespace ops::attr;

const ops::AttributeDefs windows = {text("auto_pad"), integers("dilations"), integers("kernel_shape"), integers("pads"),
                                    integers("strides")};
const ops::AttributeDefs grouped = windows + ops::AttributeDefs{integer("group").at_least(1)};
const ops::AttributeDefs fused = grouped + ops::AttributeDefs{text("activation"), reals("activation_params")};
TENON_FORMER("com.microsoft:FusedConv", fused);
TENON_FORMER("com.microsoft:NhwcFusedConv", fused);
TENON_FORMER("com.microsoft:NhwcConv", grouped);
TENON_FORMER("com.microsoft:NhwcMaxPool", windows + ops::AttributeDefs{flag("ceil_mode")});

/// Weights [outputs][height][width][inputs] as [outputs][inputs][height][width]. Both orders are written; the sizes of
/// the window or the input's channels say which it is.
bool order_weights(NodeImport& node, ir::ValueId& weights, const std::vector<int64_t>& window) {
  const auto first = node.size(weights, 1), last = node.size(weights, -1);
  const auto channels = node.size(node.input(0), -1);
  const int64_t group = node.integer("group", 1);
  const auto fits = [&](size_t from) {
    for (size_t at = 0; at < window.size(); ++at)
      if (node.size(weights, static_cast<int64_t>(from + at)) != window[at]) return false;
    return !window.empty();
  };
  const bool sizes_last = fits(1), sizes_first = fits(2);
  bool last_holds = node.op == "com.microsoft:NhwcConv";
  if (sizes_last != sizes_first) last_holds = sizes_last;
  else if (first && last && channels && *first != *last) last_holds = *last * group == *channels;
  else if (!first || !last || *first != *last) return false;
  if (last_holds) weights = transposed(node, weights, {0, 3, 1, 2});
  return true;
}

void conv(NodeImport& node) {
  const bool last = node.op != "com.microsoft:FusedConv";
  want_inputs(node, {0, 1}, node.op == "com.microsoft:NhwcConv" ? 3 : 4);
  ir::ValueId x = node.input(0), w = node.input(1), other = node.input(3);
  const std::string name = node.text("activation", "");
  const std::vector<float> parameters = node.real_list("activation_params");
  const auto rank = node.rank(w);
  if (last && rank != 4u) return node.unsupported("a window that is not known to have two axes");
  if (last && !order_weights(node, w, node.integer_list("kernel_shape")))
    return node.unsupported("weights in an order that is not known");
  if (last) x = transposed(node, x, to_channels_first(4));
  if (last && other != ir::no_value) other = transposed(node, other, to_channels_first(4));
  node.drop({"activation", "activation_params"});
  std::vector<ir::ValueId> operands{x, w};
  if (node.has(2)) operands.push_back(node.input(2));
  ir::ValueId y = plus(node, node.add("Conv", operands, node.attributes), other);
  if (!activate(node, y, name, parameters)) return node.unsupported("activation '" + name + "'");
  node.bind(0, last ? transposed(node, y, to_channels_last(4)) : y);
}
TENON_IMPORT(conv, "com.microsoft:FusedConv", "com.microsoft:NhwcConv", "com.microsoft:NhwcFusedConv");

void pool(NodeImport& node) {
  want_inputs(node, {0}, 1);
  const size_t rank = node.integer_list("kernel_shape").size() + 2;
  if (rank < 3) node.fail("attribute 'kernel_shape' is missing");
  const ir::ValueId x = transposed(node, node.input(0), to_channels_first(rank));
  become(node, "Transpose", {node.add("MaxPool", {x}, node.attributes)}, {{"perm", to_channels_last(rank)}});
}
TENON_IMPORT(pool, "com.microsoft:NhwcMaxPool");

/// Blocks of channels, as many as the vectors of the processor that the file was saved on: which it does not say.
void blocked(NodeImport& node) {
  node.unsupported("weights in the order of one processor: save the model at ORT_ENABLE_EXTENDED or below");
}
TENON_IMPORT(blocked, "com.microsoft.nchwc:Conv", "com.microsoft.nchwc:MaxPool", "com.microsoft.nchwc:AveragePool",
             "com.microsoft.nchwc:GlobalMaxPool", "com.microsoft.nchwc:GlobalAveragePool",
             "com.microsoft.nchwc:Upsample", "com.microsoft.nchwc:ReorderInput", "com.microsoft.nchwc:ReorderOutput");

}  // namespace
}  // namespace tenon::onnx::microsoft_convs
