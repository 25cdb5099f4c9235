// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace tenon::errors {

namespace microsoft_ops {
namespace {

using namespace test;

std::string real(const char* name, float value) {
  return field(5, field(1, name) + varint(2 << 3 | 5) + raw<float>({value}) + field(20, 1));
}
const std::string microsoft = field(7, "com.microsoft");
const std::string heads = integer("num_heads", 2);
const std::string grouped = heads + integer("kv_num_heads", 1);

/// A node n of com.microsoft behind these inputs.
std::string one(const std::string& before, const char* op, const std::vector<std::string>& inputs,
                const std::string& attributes = "") {
  return model(before + node("n", op, inputs, {"y"}, attributes + microsoft) + node("r", "Relu", {"y"}, {"z"}) +
               output("z"));
}

const std::string x = input("x", {1, 3, 8});
const std::string cache = input("p", {1, 1, 4, 4}) + input("l", {1}, i32) + input("t", {}, i32);

std::vector<Case> cases() {
  return {
      building("13.microsoft.not_known", one(x, "PackedAttention", {"x"})),
      building(
          "13.microsoft.several",
          model(x + node("a", "QMoE", {"x"}, {"q"}, microsoft) +
                node("b", "RotaryEmbedding", {"q", "q", "q", "q"}, {"y"}, real("scale", 2) + microsoft) + output("y"))),
      building("13.microsoft.unknown_attribute", one(x, "Gelu", {"x"}, integer("axis", 1))),
      building("13.microsoft.wrong_type", one(x, "SkipLayerNormalization", {"x", "x", "x"}, integer("epsilon", 1))),
      building("13.microsoft.missing_attribute", one(x, "Attention", {"x", "x"})),
      building("13.microsoft.missing_input", one(x, "SkipLayerNormalization", {"x", "", "x"})),
      building("13.microsoft.too_many_inputs", one(x, "FusedMatMul", {"x", "x", "x"})),
      building("13.microsoft.activation", one(x, "FusedGemm", {"x", "x"}, text("activation", "Cosh"))),
      building("13.microsoft.unknown_rank",
               model(x + input("s", {-1}, i64) + node("a", "Reshape", {"x", "s"}, {"a"}) +
                     node("n", "FusedMatMul", {"a", "a"}, {"y"}, integer("transB", 1) + microsoft) + output("y"))),
      building("13.microsoft.projection", one(x + zeros("w", {8, 20}), "Attention", {"x", "w"}, heads)),
      building("13.microsoft.hidden_sizes",
               one(x + zeros("w", {8, 24}), "Attention", {"x", "w"}, heads + integers("qkv_hidden_sizes", {8, 8, 4}))),
      building("13.microsoft.shared_buffers",
               one(x + zeros("w", {8, 24}), "Attention", {"x", "w"}, heads + integer("past_present_share_buffer", 1))),
      building("13.microsoft.mask_of_lengths",
               one(x + input("m", {5}, i32), "MultiHeadAttention", {"x", "x", "x", "", "m"}, heads)),
      building("13.microsoft.values_alone", one(x, "MultiHeadAttention", {"x", "", "x"}, heads)),
      building("13.microsoft.past_alone",
               one(x + cache, "MultiHeadAttention", {"x", "x", "x", "", "", "", "p"}, heads)),
      building("13.microsoft.quantised_cache",
               one(x + cache, "GroupQueryAttention", {"x", "x", "x", "p", "p", "l", "t"},
                   grouped + text("k_quant_type", "PER_TENSOR"))),
      building("13.microsoft.shares_of_heads",
               one(x + cache, "GroupQueryAttention", {"x", "x", "x", "p", "p", "l", "t"},
                   integer("num_heads", 4) + integer("kv_num_heads", 3))),
      building("13.microsoft.odd_width",
               one(input("x", {1, 3, 7}) + cache, "GroupQueryAttention", {"x", "x", "x", "p", "p", "l", "t"}, grouped)),
      building("13.microsoft.rotary_without_tables",
               one(x + cache, "GroupQueryAttention", {"x", "x", "x", "p", "p", "l", "t"},
                   grouped + integer("do_rotary", 1))),
      building("13.microsoft.packed_weights",
               one(x + zeros("w", {1}), "MatMulNBits", {"x", "w", "w"},
                   integer("K", 8) + integer("N", 1) + integer("block_size", 16) + integer("weight_prepacked", 1))),
      building(
          "13.microsoft.order_of_weights",
          one(x + tensor("w", u8, {1, 1, 8}, std::string(8, '\0')) + zeros("s", {1}) +
                  tensor("g", i32, {8}, raw<int32_t>({0, 0, 0, 0, 0, 0, 0, 7})),
              "MatMulNBits", {"x", "w", "s", "", "g"}, integer("K", 8) + integer("N", 1) + integer("block_size", 16))),
      building("13.microsoft.no_weights",
               one(tensor("b", u8, {}, std::string(1, '\0')) + zeros("s", {}) + input("q", {1, 4, 4, 1}, u8),
                   "QLinearConv", {"q", "s", "b", "", "s", "b", "s", "b"}, integer("channels_last", 1))),
      building("13.microsoft.table",
               one(input("i", {2}, i64) + tensor("w", u8, {3, 8}, std::string(24, '\0')) + zeros("s", {3, 2}),
                   "GatherBlockQuantized", {"w", "i", "s"}, integer("block_size", 16))),
      building("13.microsoft.blocks_of_channels",
               model(input("x", {1, 16, 4, 4}) + zeros("w", {16, 16, 1, 1}) +
                     node("c", "Conv", {"x", "w"}, {"y"}, field(7, "com.microsoft.nchwc")) + output("y"))),
  };
}

}  // namespace
}  // namespace microsoft_ops

std::vector<Case> microsoft_cases() { return microsoft_ops::cases(); }

}  // namespace tenon::errors
