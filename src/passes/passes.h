// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

/// The passes themselves, one file each; pipeline.cpp tells their story in order. Each returns whether it changed the
/// graph.
namespace tenon::passes {

bool cast_to_f32(ir::Graph& graph);
bool constant_folding(ir::Graph& graph);
bool shape_folding(ir::Graph& graph);
/// Scattering to a box of places, which exporters make of assignments to slices.
bool assign_slices(ir::Graph& graph);
bool cut_parts(ir::Graph& graph);
bool remove_identity(ir::Graph& graph);
bool common_subexpressions(ir::Graph& graph);
bool split_pools(ir::Graph& graph);
bool split_reductions(ir::Graph& graph);
bool expand_tiles(ir::Graph& graph);
bool fold_batch_norm(ir::Graph& graph);
bool sink_reshapes(ir::Graph& graph);
bool mix_rows(ir::Graph& graph);
bool join_frames(ir::Graph& graph);
bool pad_frames(ir::Graph& graph);
bool join_axes_last(ir::Graph& graph);
bool order_channels(ir::Graph& graph);
bool hoist_slopes(ir::Graph& graph);
bool unstack_sums(ir::Graph& graph);
bool fold_scale(ir::Graph& graph);
/// Steps behind a Concat of convolutions or products, before it, where their kernels take them along.
bool hoist_before_concat(ir::Graph& graph);
bool merge_branches(ir::Graph& graph);
bool fold_pad(ir::Graph& graph);
bool canonical(ir::Graph& graph);
bool recognise_activations(ir::Graph& graph);
/// Softmax, normalisations of layers, by the root of the mean square, of groups, of vectors and by neighbouring
/// channels, and rotary embeddings, where exporters spell them.
bool recognise_softmax(ir::Graph& graph);
bool recognise_layer_norm(ir::Graph& graph);
bool recognise_group_norm(ir::Graph& graph);
bool recognise_lp_norm(ir::Graph& graph);
bool recognise_lrn(ir::Graph& graph);
bool recognise_rotary(ir::Graph& graph);
bool cancel_transpose_reshape(ir::Graph& graph);
bool cancel_apart(ir::Graph& graph);
bool narrow_expands(ir::Graph& graph);
bool simplify_einsum(ir::Graph& graph);
bool lower_einsum(ir::Graph& graph);
bool lower_fourier(ir::Graph& graph);
bool lower_log_sum_exp(ir::Graph& graph);
bool lower_attention(ir::Graph& graph);
bool split_batches(ir::Graph& graph);
bool split_axes_first(ir::Graph& graph);
bool keep_rows(ir::Graph& graph);
bool lift_1d(ir::Graph& graph);
/// Windows over images of one column, as windows over one row.
bool turn_columns(ir::Graph& graph);
/// Deformable convolutions as what their taps read, and convolutions of single pixels.
bool lower_deform(ir::Graph& graph);
/// Convolutions by constant weights that a run multiplies for each input or output, as such by constant weights alone.
bool factor_weights(ir::Graph& graph);
bool lower_run_weights(ir::Graph& graph);
bool lower_conv3d(ir::Graph& graph);
/// Pools and transposed convolutions over three axes.
bool lower_tests(ir::Graph& graph);
bool lower_volumes(ir::Graph& graph);
bool layout_nhwc(ir::Graph& graph);
bool fuse_epilogue(ir::Graph& graph);
/// Products by large or shared constants that lie transposed as Gemm, so that those are not there twice.
bool transposed_weights(ir::Graph& graph);
bool fuse_elementwise(ir::Graph& graph);
/// The same from bytes to bytes, with the scales between them.
bool fuse_bytes(ir::Graph& graph);
bool lower_quantised(ir::Graph& graph);
/// The same of what 16 bits are multiplied by, on a CPU: internal Int16Conv nodes. What else is quantised to 16 bits
/// and read as numbers becomes internal FakeQuantize16 nodes.
bool lower_int16(ir::Graph& graph);
/// Makes these of QuantizeLinear and DequantizeLinear, but where numbers are whole steps already.
bool fake_quantize16(ir::Graph& graph);
/// Sums of several products of what is quantised to 16 bits, each within 32 bits, for one that may leave them.
bool split_int16_products(ir::Graph& graph);
/// Drops those whose results only Int16Conv reads, which quantises them itself.
bool int16_inputs(ir::Graph& graph);
/// Joins FakeQuantize16 to products before it, and to elementwise nodes around it.
bool fuse_int16(ir::Graph& graph);
/// The same for e4m3: internal Float8Conv nodes, for which only GPUs have fast kernels.
bool lower_float8(ir::Graph& graph);
/// Makes internal Int8Conv nodes whose input has a scale and a zero point that are known when they run, of the integer
/// sums that dynamic quantisation leaves with the steps behind them.
bool fuse_dynamic(ir::Graph& graph);
/// Biases of scores by rows and columns of an image, as in MViT, become columns of queries and keys.
bool bias_columns(ir::Graph& graph);
/// Makes internal DotAttention nodes, for which GPUs have a kernel in 16 bits.
bool fuse_attention(ir::Graph& graph);
/// The way back, for CPUs, whose kernels are for the parts.
bool split_attention(ir::Graph& graph);
/// Values by transposed weights of an attention as a transposed product.
bool transpose_matmuls(ir::Graph& graph);
/// Joins products of one value by several weights whose results only attention reads.
bool merge_products(ir::Graph& graph);
/// Gemm of two values as MatMul, which GPUs have kernels for.
bool general_products(ir::Graph& graph);
/// Convolutions over patches of an image, side by side, as products.
bool patches_to_products(ir::Graph& graph);
bool deep_patches_to_products(ir::Graph& graph);
/// Those that read what is quantised to 16 bits.
bool int16_patches_to_products(ir::Graph& graph);
/// LSTM, GRU and RNN with constant weights: a matrix multiplication and a tenon:Recurrence.
bool project_recurrent(ir::Graph& graph);
/// Two Gathers that pick the windows of an image, and what stands in front of them, as an internal Unfold.
bool unfold_gathers(ir::Graph& graph);
/// Gather of one constant index as Slice and Reshape.
bool slice_gathers(ir::Graph& graph);
/// Activations with slopes that convolutions and products take along as PRelu nodes behind them.
bool split_slopes(ir::Graph& graph);
/// Transposed convolutions, channels last, as convolutions with a channel for each place between two pixels.
bool subpixel_deconvolution(ir::Graph& graph);
/// Transposed convolutions, channels last, of dequantised values and weights as convolutions of each phase of the rows.
bool deconvolution_rows(ir::Graph& graph);
/// Signed bytes between QuantizeLinear and DequantizeLinear as unsigned ones, whose zero points are 128 higher.
bool unsigned_bytes(ir::Graph& graph);
/// Quantises what products give before it is moved, and stores zeros that stand beside what is read from bytes as
/// bytes: frames of volumes then stay bytes from one convolution to the next.
bool quantised_frames(ir::Graph& graph);
/// Makes internal BoundedNms nodes, whose results have sizes that are known before.
bool bound_nms(ir::Graph& graph);
/// Makes internal BoxHead nodes, for which only GPUs have a fast kernel.
bool fuse_box_head(ir::Graph& graph);
/// An internal Int8Conv or Int16Conv (src/ops/int8_conv.cpp) as a Conv between conversions; false where the node is
/// none.
bool int8_to_f32(ir::Graph& graph, ir::NodeId id);
/// The same of an Int16Conv alone.
bool int16_conv_to_f32(ir::Graph& graph, ir::NodeId id);
/// All of them, as only CPUs have kernels for them.
bool int16_convs_to_f32(ir::Graph& graph);
/// Whether there is one.
bool has_int16_convs(const ir::Graph& graph);
/// Those whose weights are no bytes, as GPUs multiply bytes alone.
bool int16_to_f32(ir::Graph& graph);
/// Gives weights of products and tables of Gather whose numbers a type of 16 bits has that type; kernels of the host
/// cast them.
bool weights_to_16_bits(ir::Graph& graph);
/// The way back, of products.
bool weights_to_f32(ir::Graph& graph);
/// What constant_folding leaves: weights of bytes that no integer op took.
bool fold_weights(ir::Graph& graph);

/// For CPUs, where products cost more than sums of their results: convolutions of 1x1 on the small maps that a large
/// one was made of, two products as one where that is fewer, and transposes of maps before these grow.
bool products_before_resize(ir::Graph& graph);
bool compose_products(ir::Graph& graph);
bool transpose_before_resize(ir::Graph& graph);
/// Nodes whose results are larger than what is kept for them alone go right before the first that reads them.
bool compute_late(ir::Graph& graph);
/// Products by constant weights as convolutions of 1x1, for which GPUs have more kernels.
bool products_to_convolutions(ir::Graph& graph);
/// For a build in f16: convolutions, products by constant weights and what lies
/// between them get f16 tensors, with Casts at the edges. The internal attribute output_dtype of Conv says where its
/// result is of another type than its input; weights stay f32 and are rounded where a session begins.
bool cast_to_f16(ir::Graph& graph);
/// Elementwise nodes read and give the types beside them, without the Casts between.
bool absorb_casts(ir::Graph& graph);
/// The same in bf16.
bool cast_to_bf16(ir::Graph& graph);

}  // namespace tenon::passes
