// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Embeddings of com.microsoft whose tables are integers.
namespace tenon::onnx::microsoft_embeddings {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:GatherBlockQuantized",
             {integer("bits"), integer("block_size"), integer("gather_axis"), integer("quantize_axis")});
TENON_FORMER("com.microsoft:QEmbedLayerNormalization", {real("epsilon")});

/// A table of rows as bytes, each with `each` integers of `bits` bits, the lowest first.
struct Table {
  Tensor bytes;
  int64_t bits, each, zero;  // zero: of those without zero points
};

/// Signed integers are told by what is added to make them unsigned.
Tensor packed(const Tensor& list, int64_t& shift) {
  shift = list.dtype() == DType::i4 ? 8 : 0;
  const Dims& dims = list.dims();
  const int64_t rows = dims[0], columns = dims[1], width = (columns + 1) / 2;
  Tensor bytes(DType::u8, {rows, width});
  std::fill_n(bytes.data<uint8_t>(), bytes.elements(), uint8_t{0});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t at = 0; at < columns; ++at) {
      const int number = (list.data<int8_t>()[row * columns + at] + static_cast<int>(shift)) & 15;
      uint8_t& to = bytes.data<uint8_t>()[row * width + at / 2];
      to = static_cast<uint8_t>(to | number << at % 2 * 4);
    }
  return bytes;
}

bool take(NodeImport& node, size_t input, Table& table) {
  const Tensor* list = node.graph().constant(node.input(input));
  if (!list || list->dims().rank() != 2) return false;
  const int64_t bits = node.integer("bits", 4);
  if (list->dtype() == DType::u4 || list->dtype() == DType::i4) {
    int64_t shift = 0;
    table = {packed(*list, shift), 4, 2, 0};
    table.zero = shift;
    return true;
  }
  if (list->dtype() != DType::u8 || (bits != 2 && bits != 4 && bits != 8)) return false;
  table = {*list, bits, 8 / bits, int64_t{1} << (bits - 1)};
  return true;
}

/// The integers of rows that were picked, as f32 of the first `count` columns: digits of bytes.
ir::ValueId unpacked(NodeImport& node, ir::ValueId bytes, const Table& table, size_t rank, int64_t count) {
  ir::ValueId rest = cast(node, bytes, DType::f32);
  if (table.each == 1) return rest;
  const auto base = static_cast<float>(1 << table.bits);
  std::vector<ir::ValueId> digits;
  const auto axis = static_cast<int64_t>(rank);
  for (int64_t digit = 0; digit + 1 < table.each; ++digit) {
    const ir::ValueId higher = node.add("Floor", {node.add("Mul", {rest, node.scalar_like(1 / base, rest)})});
    const ir::ValueId taken = node.add("Mul", {higher, node.scalar_like(base, rest)});
    digits.push_back(unsqueezed(node, node.add("Sub", {rest, taken}), {axis}));
    rest = higher;
  }
  digits.push_back(unsqueezed(node, rest, {axis}));
  std::vector<int64_t> sizes(rank, 0);
  sizes.back() = -1;
  const ir::ValueId all = reshaped(node, node.add("Concat", digits, {{"axis", axis}}), sizes);
  return table.bytes.dims()[1] * table.each == count ? all : sliced(node, all, -1, 0, count);
}

/// Numbers of blocks, one for each element of a row.
ir::ValueId repeated(NodeImport& node, ir::ValueId values, size_t rank, int64_t block, int64_t count) {
  const ir::ValueId column = unsqueezed(node, values, {static_cast<int64_t>(rank)});
  std::vector<int64_t> times(rank + 1, 1), sizes(rank, 0);
  times.back() = block;
  sizes.back() = -1;
  const ir::ValueId all = reshaped(node, node.add("Expand", {column, node.integers(times)}), sizes);
  return sliced(node, all, -1, 0, count);
}

void gather(NodeImport& node) {
  enum : size_t { data, indices, scales, zeros };
  want_inputs(node, {data, indices, scales}, 4);
  const auto index_rank = node.rank(node.input(indices));
  const Tensor* const of_scales = node.graph().constant(node.input(scales));
  Table table, points;
  if (!index_rank || !of_scales || of_scales->dims().rank() != 2 || !take(node, data, table) ||
      (node.has(zeros) && !take(node, zeros, points)))
    return node.unsupported("a table that is no constant matrix of 2, 4 or 8 bits");
  const int64_t along = node.integer("quantize_axis", 1), block = node.integer("block_size", 128);
  if (node.integer("gather_axis", 0) != 0 || (along != 1 && along != -1))
    return node.unsupported("blocks that do not lie along the rows it picks");
  const Tensor steps = *of_scales, list = *node.graph().constant(node.input(data));
  const int64_t blocks = steps.dims()[1];
  const int64_t count = list.dtype() == DType::u8 ? list.dims()[1] * table.each : list.dims()[1];
  if (block < 1 || steps.dims()[0] != list.dims()[0] || blocks != (count - 1) / block + 1)
    node.fail("its scales are " + steps.dims().str() + " for a table " + list.dims().str());
  if (node.has(zeros) && (points.bytes.dims()[0] != list.dims()[0] || points.bits != table.bits ||
                          points.bytes.dims()[1] != (blocks + points.each - 1) / points.each))
    node.fail("its zero points are " + points.bytes.dims().str());
  const size_t rank = *index_rank + 1;
  const auto pick = [&](const Tensor& from) { return node.add("Gather", {node.constant(from), node.input(indices)}); };
  const ir::ValueId numbers = unpacked(node, pick(table.bytes), table, rank, count);
  const ir::ValueId step = pick(steps), wide = cast(node, step, DType::f32);
  ir::ValueId zero = node.scalar_like(static_cast<float>(table.zero), numbers);
  const bool whole = count % block == 0;
  std::vector<int64_t> open(rank + 1, 0), closed(rank, 0);
  open[rank - 1] = blocks, open[rank] = whole ? block : 0;
  closed.back() = count;
  const auto spread = [&](ir::ValueId value) {
    return whole ? unsqueezed(node, value, {static_cast<int64_t>(rank)}) : repeated(node, value, rank, block, count);
  };
  if (node.has(zeros)) zero = spread(unpacked(node, pick(points.bytes), points, rank, blocks));
  const ir::ValueId rows = whole ? reshaped(node, numbers, open) : numbers;
  const ir::ValueId y = node.add("Mul", {node.add("Sub", {rows, zero}), spread(wide)});
  const ir::ValueId result = whole ? reshaped(node, y, closed) : y;
  node.bind(0, cast_like(node, result, step));
}
TENON_IMPORT(gather, "com.microsoft:GatherBlockQuantized");

/// Tables of bytes with one scale and zero point each.
void embed(NodeImport& node) {
  enum : size_t {
    ids,
    segments,
    words,
    places,
    parts,
    gamma,
    beta,
    mask,
    word_scale,
    place_scale,
    part_scale,
    gamma_scale,
    beta_scale,
    word_zero,
    place_zero,
    part_zero,
    gamma_zero,
    beta_zero
  };
  want_inputs(node,
              {ids, words, places, gamma, beta, word_scale, place_scale, gamma_scale, beta_scale, word_zero, place_zero,
               gamma_zero, beta_zero},
              18);
  const auto flat = [&](size_t at) { return reshaped(node, node.input(at), {}); };
  const auto real = [&](ir::ValueId bytes, size_t scale, size_t zero) {
    return node.add("DequantizeLinear", {bytes, flat(scale), flat(zero)});
  };
  const auto pick = [&](size_t table, ir::ValueId at) { return node.add("Gather", {node.input(table), at}); };
  const ir::ValueId length = size_of(node, node.input(ids), 1);
  const ir::ValueId rows = node.add("Slice", {node.input(places), node.integers({0}), length, node.integers({0})});
  ir::ValueId sum = real(pick(words, node.input(ids)), word_scale, word_zero);
  if (node.has(segments)) {
    want_inputs(node, {parts, part_scale, part_zero}, 18);
    sum = node.add("Add", {sum, real(pick(parts, node.input(segments)), part_scale, part_zero)});
  }
  sum = node.add("Add", {sum, real(rows, place_scale, place_zero)});
  if (node.wants(1) && node.has(mask)) {
    const ir::ValueId numbers = cast(node, node.input(mask), DType::i32);
    node.bind(1, node.add("ReduceSum", {numbers, node.integers({1})}, {{"keepdims", int64_t{0}}}));
  } else if (node.wants(1)) {
    node.bind(1, node.add("Expand", {node.constant(Tensor(DType::i32, {1})), size_of(node, node.input(ids), 0)}));
  }
  become(node, "LayerNormalization",
         {sum, real(node.input(gamma), gamma_scale, gamma_zero), real(node.input(beta), beta_scale, beta_zero)},
         {{"axis", int64_t{-1}}, {"epsilon", node.real("epsilon", 1e-12f)}});
}
TENON_IMPORT(embed, "com.microsoft:QEmbedLayerNormalization");

}  // namespace
}  // namespace tenon::onnx::microsoft_embeddings
