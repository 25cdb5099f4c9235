// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>

#include "ops/op.h"
#include "passes/bodies.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "passes/weight_only.h"

namespace tenon::passes {

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> list = {
      // Narrow floats are a storage choice of the file; precision is chosen later, so all arithmetic starts in f32.
      {"cast_to_f32", "computes f16 and bf16 graphs in f32", cast_to_f32},
      // What the file knows already need not be computed; shape arithmetic goes first, as it makes more constants.
      {"shape_folding", "turns known shape arithmetic into constants", shape_folding},
      // Before indices that are known, and may be many, become constants.
      {"assign_slices", "joins slices instead of scattering to all places of one", assign_slices},
      {"constant_folding", "computes nodes whose inputs are all constant", constant_folding},
      {"remove_identity", "drops nodes that give their input back", remove_identity},
      // Bodies that run once and always are no bodies; their nodes meet those around them in all that follows.
      {"fold_branches", "puts the branch that a constant condition takes in the node's place", fold_branches},
      {"fold_loops", "puts the rounds of short loops one behind the other", fold_loops},
      {"fold_inlined", "computes what the two above made constant", constant_folding},
      {"drop_captures", "lets bodies capture only what they read", drop_captures},
      {"assign_slices_again", "does the same where the above made sizes or indices known", assign_slices},
      {"common_subexpressions", "computes equal expressions once", common_subexpressions},
      // One spelling per meaning, so that the patterns below are few.
      {"hoist_slopes", "activates by channel before pixels are shuffled", hoist_slopes},
      {"canonical", "rewrites equivalent forms of a node to one form", canonical},
      {"cancel_apart", "drops pairs of transposes with elementwise nodes between them", cancel_apart},
      {"recognise_activations", "finds activations spelled out in small ops", recognise_activations},
      {"recognise_softmax", "finds softmax and its logarithm spelled out", recognise_softmax},
      {"recognise_layer_norm", "finds layer and RMS normalisations spelled out", recognise_layer_norm},
      {"recognise_group_norm", "finds normalisations of groups of channels spelled out", recognise_group_norm},
      {"recognise_lp_norm", "finds vectors divided by their length spelled out", recognise_lp_norm},
      {"recognise_rotary", "finds rotary embeddings spelled out", recognise_rotary},
      // Rotary embeddings are known by their slices, so this comes behind them.
      {"cut_parts", "slices the parts of a Concat instead of the whole", cut_parts},
      {"unstack_sums", "adds tensors, or few parts of one, instead of stacking them for a sum", unstack_sums},
      {"narrow_expands", "leaves axes of one element to the arithmetic that stretches them", narrow_expands},
      {"simplify_einsum", "turns equations of Einsum into those of two operands that share a sum", simplify_einsum},
      {"lower_einsum", "turns sums over shared labels into matrix multiplications", lower_einsum},
      {"lower_fourier", "turns Fourier transforms into matrix multiplications and convolutions", lower_fourier},
      {"lower_tests", "turns tests for infinite numbers, and bounds that only a run knows, into elementwise nodes",
       lower_tests},
      {"lower_attention", "spells out attention, as kernels and passes know its parts", lower_attention},
      // Linear steps beside a convolution become part of its weights. Padding goes first, as it stands before the
      // convolution.
      {"fold_pad", "moves zero padding into convolutions and pools", fold_pad},
      {"fold_batch_norm", "turns batch normalisation into a scale and a shift", fold_batch_norm},
      {"hoist_before_concat", "computes what follows a Concat of convolutions on each of them", hoist_before_concat},
      {"split_batches", "multiplies batches of several axes that were joined to one", split_batches},
      {"sink_reshapes", "scales products before reshapes that keep their columns", sink_reshapes},
      {"fold_scale", "folds scales and shifts into weights and biases", fold_scale},
      {"merge_branches", "adds convolutions of one input to one", merge_branches},
      {"fold_constants_again", "computes what the folds above made constant", constant_folding},
      {"cancel_transpose_reshape", "merges and drops transposes and reshapes", cancel_transpose_reshape},
      {"recognise_lrn", "finds normalisations by neighbouring channels spelled out", recognise_lrn},
      {"lower_deform", "turns deformable convolutions into the windows that they read and convolutions", lower_deform},
      {"factor_weights", "multiplies what a convolution reads and gives, instead of its weights", factor_weights},
      {"lower_run_weights", "turns convolutions by weights that only a run knows into matrix multiplications",
       lower_run_weights},
      // Windows over one or three axes become windows over two, which have the fast kernels.
      {"lift_1d", "turns windows over one axis into windows over two", lift_1d},
      {"turn_columns", "turns windows over images of one column into windows over one row", turn_columns},
      {"lower_conv3d", "turns convolutions over three axes into convolutions over two", lower_conv3d},
      {"lower_volumes", "turns pools and transposed convolutions over three axes into such over two", lower_volumes},
      {"canonical_again", "gives the reshapes of the two above their one form", canonical},
      {"cancel_lifts", "merges the reshapes and transposes between them", cancel_transpose_reshape},
      {"split_axes_first", "splits joined axes before they are transposed", split_axes_first},
      {"keep_rows", "computes matrix multiplications of flattened axes on the axes themselves", keep_rows},
      // From here on tensors lie channels last.
      {"layout_nhwc", "puts convolutional networks in channels-last order", layout_nhwc},
      {"cancel_again", "drops the transposes and reshapes that the new order made idle", cancel_transpose_reshape},
      {"fold_permuted_constants", "computes the constants that the new order moved", constant_folding},
      {"common_again", "shares what the new order doubled", common_subexpressions},
      // Kernels take what follows them along, while the result is in registers.
      {"fuse_dynamic", "joins integer sums with the scales behind them that are known when they run", fuse_dynamic},
      {"fuse_epilogue", "joins activations and residual sums to convolutions and matrix multiplications",
       fuse_epilogue},
      {"join_axes_last", "transposes axes that a reshape joined before it does, where they were transposed already",
       join_axes_last},
      {"order_channels", "makes channels in the order in which a pixel shuffle leaves their parts", order_channels},
      {"transposed_weights", "reads the constants of matrix multiplications transposed where they lie so",
       transposed_weights},
      {"fuse_elementwise", "joins trees of elementwise nodes into one node", fuse_elementwise},
  };
  return list;
}

const std::vector<Pass>& lowering() {
  static const std::vector<Pass> list = {
      {"lower_quantised", "joins quantised nodes with their scales to integer nodes", lower_quantised},
      {"fold_weights", "computes the weights that stay floating point", fold_weights},
      {"common_scales", "shares what the two above doubled", common_subexpressions},
      {"fuse_bytes", "joins elementwise nodes between bytes into one node", fuse_bytes},
      {"fuse_box_head", "joins what follows the last convolutions of a detector", fuse_box_head},
  };
  return list;
}

const std::vector<Pass>& for_gpu() {
  static const std::vector<Pass> list = {
      {"split_slopes", "computes activations with a slope for each channel behind convolutions and products",
       split_slopes},
      {"int16_to_f32", "computes integer convolutions whose weights are no bytes on floats", int16_to_f32},
      {"bound_nms", "gives NMS of boxes as many rows as it may make", bound_nms},
      {"project_recurrent", "computes what the inputs give to the gates of all steps in one matrix multiplication",
       project_recurrent},
      {"general_products", "turns general products of two values into matrix multiplications", general_products},
      {"patches_to_products", "turns convolutions over patches side by side into products", patches_to_products},
      {"split_reductions", "reduces axes that are no neighbours one after the other", split_reductions},
      {"split_pools", "pools large windows over rows and then over columns, and whole images as reductions",
       split_pools},
      {"expand_tiles", "turns tiles into expanded axes, which may be views", expand_tiles},
      {"unfold_gathers", "joins what picks the windows of an image row by row and column by column", unfold_gathers},
      {"join_frames", "copies what several slices of one tensor give side by side in one go", join_frames},
      {"pad_frames", "gives what windows of frames see zeros behind it, so that its channels are whole vectors",
       pad_frames},
      {"slice_gathers", "turns picking one element along an axis into a slice, which may be a view", slice_gathers},
      {"subpixel_deconvolution", "computes transposed convolutions as convolutions of several phases",
       subpixel_deconvolution},
      {"mix_rows", "multiplies constants from the left where rows are mixed, instead of transposing", mix_rows},
      {"fuse_mixed", "joins the sums that this left behind matrix multiplications", fuse_epilogue},
      {"split_mixed_slopes", "takes apart again what no kernel has", split_slopes},
  };
  return list;
}

const std::vector<Pass>& before_host() {
  static const std::vector<Pass> list = {
      {"lower_weight_only", "joins products with the scales of weights that are integers", lower_weight_only},
      {"unsigned_bytes", "stores what was quantised to signed bytes as unsigned ones", unsigned_bytes},
      {"deconvolution_rows", "computes quantised transposed convolutions as convolutions of each phase of the rows",
       deconvolution_rows},
      {"quantised_frames", "keeps frames of quantised volumes as bytes between convolutions", quantised_frames},
      {"lower_int16", "joins products by what is quantised to 16 bits with their scales", lower_int16},
      {"fuse_int16", "joins the roundings to 16 bits that this left to what is before them", fuse_int16},
  };
  return list;
}

const std::vector<Pass>& for_host() {
  static const std::vector<Pass> list = {
      {"transpose_before_resize", "transposes maps before they grow", transpose_before_resize},
      {"products_before_resize", "computes convolutions of 1x1 before the maps that they read grow",
       products_before_resize},
      {"compose_products", "joins two products by constant weights where one takes fewer steps", compose_products},
      {"deep_patches_to_products", "turns convolutions over large patches side by side into products",
       deep_patches_to_products},
      {"lower_log_sum_exp", "spells out logarithms of sums of exponentials", lower_log_sum_exp},
      {"fuse_resized", "joins what these leave", fuse_elementwise},
      {"weights_to_16_bits", "keeps weights that 16 bits hold exactly in 16 bits", weights_to_16_bits},
      // Rewritten nodes come behind those that stayed, so that what the latter give may wait for long.
      {"compute_late", "computes what is larger than its inputs right before it is needed", compute_late},
  };
  return list;
}

const std::vector<Pass>& for_float8() {
  static const std::vector<Pass> list = {
      {"lower_float8", "joins nodes of 8-bit floats with their scales", lower_float8},
  };
  return list;
}

const std::vector<Pass>& for_16_bits() {
  static const std::vector<Pass> list = {
      {"absorb_casts", "leaves casts beside elementwise nodes to these", absorb_casts},
  };
  return list;
}

const std::vector<Pass>& for_attention() {
  static const std::vector<Pass> list = {
      {"transpose_matmuls", "swaps the operands of matrix multiplications by transposed weights in attention",
       transpose_matmuls},
      {"split_axes_again", "splits joined axes before they are transposed", split_axes_first},
      {"cancel_transposes", "merges the transposes that this left", cancel_transpose_reshape},
      {"bias_columns", "gives queries and keys the biases of their scores as columns", bias_columns},
      {"fuse_attention", "joins the matrix multiplications around the softmax of attention", fuse_attention},
      {"merge_products", "joins the matrix multiplications that make queries, keys and values, and those of gates",
       merge_products},
  };
  return list;
}

namespace {

/// What takes an engine from one device to another.
const std::vector<Pass>& for_transfer() {
  static const std::vector<Pass> list = {
      {"split_attention", "splits attention into matrix multiplications and a softmax", split_attention},
      {"int16_convs_to_f32", "computes products by what is quantised to 16 bits on floats", int16_convs_to_f32},
      {"weights_to_f32", "gives weights of 16 bits the type of what they multiply", weights_to_f32},
      {"weight_only_to_f32", "multiplies by weights in f32 where only these are integers", weight_only_to_f32},
  };
  return list;
}

/// Whether a pass meets bodies, too. What is for a GPU alone does not: bodies may have to run on the host.
enum class Bodies : uint8_t { entered, left };

/// Calls `visit` on each node that is alive, and on those of bodies.
void visit_nodes(const ir::Graph& graph, const std::function<void(const ir::Node&)>& visit) {
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    visit(node);
    for (const auto& [name, attribute] : node.attributes)
      if (const auto* body = std::get_if<ir::GraphRef>(&attribute)) visit_nodes(**body, visit);
  }
}

size_t live(const ir::Graph& graph) {
  size_t count = 0;
  visit_nodes(graph, [&](const ir::Node&) { ++count; });
  return count;
}

std::set<std::string> origins(const ir::Graph& graph) {
  std::set<std::string> names;
  visit_nodes(graph, [&](const ir::Node& node) { names.insert(node.origins.begin(), node.origins.end()); });
  return names;
}

/// The graph, then the bodies in it, as the types of what they take are known by then.
bool run_through(ir::Graph& graph, const Pass& pass, Bodies bodies) {
  const auto settle = [&] {
    graph.tidy();
    ops::infer(graph);
  };
  bool changed = pass.run(graph);
  if (changed) settle();
  const bool inside = bodies == Bodies::entered && each_body(graph, [&](ir::Graph& body) {
                        body.tidy();
                        ops::infer(body);
                        return run_through(body, pass, bodies);
                      });
  if (inside) settle();
  return changed || inside;
}

PassRecord run(ir::Graph& graph, const Pass& pass, Bodies bodies = Bodies::entered) {
  PassRecord record{pass.name, false, live(graph), 0, 0, {}};
  const std::set<std::string> before = origins(graph);
  const auto begin = std::chrono::steady_clock::now();
  const std::string prefix = std::string("pass ") + pass.name + ": ";
  try {
    record.changed = run_through(graph, pass, bodies);
    if (record.changed) {
      ir::verify(graph);
      const std::set<std::string> after = origins(graph);
      std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(record.gone));
    }
  } catch (const Error& error) {
    throw Error(error.code(), prefix + error.what(), {error.where(), error.why(), error.hint()});
  } catch (const std::logic_error& fault) {
    throw std::logic_error(prefix + fault.what());
  }
  record.nodes_after = live(graph);
  record.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return record;
}

/// Passes expect an ordered graph with types.
void prepare(ir::Graph& graph) {
  graph.tidy();
  ops::infer(graph);
  ir::verify(graph);
}

std::vector<const std::vector<Pass>*> all_lists() {
  return {&pipeline(), &lowering(),    &before_host(),   &for_host(),    &for_float8(),
          &for_gpu(),  &for_16_bits(), &for_attention(), &for_transfer()};
}

const Pass* find(const std::string& name) {
  for (const auto* list : all_lists())
    for (const Pass& pass : *list)
      if (name == pass.name) return &pass;
  return nullptr;
}

[[noreturn]] void unknown(const std::string& name) {
  std::string all;
  for (const auto* list : all_lists())
    for (const Pass& pass : *list) all += (all.empty() ? "" : ", ") + std::string(pass.name);
  throw Error(Code::usage, "there is no pass '" + name + "'", {"", "", "choose from: " + all});
}

std::vector<PassRecord> run_all(ir::Graph& graph, const std::vector<Pass>& list, const std::vector<std::string>& skip,
                                Bodies bodies = Bodies::left) {
  for (const std::string& name : skip)
    if (!find(name)) unknown(name);
  prepare(graph);
  std::vector<PassRecord> records;
  for (const Pass& pass : list)
    if (std::find(skip.begin(), skip.end(), pass.name) == skip.end()) records.push_back(run(graph, pass, bodies));
  return records;
}

}  // namespace

std::vector<PassRecord> optimise(ir::Graph& graph, const std::vector<std::string>& skip) {
  return run_all(graph, pipeline(), skip, Bodies::entered);
}
std::vector<PassRecord> lower(ir::Graph& graph, const std::vector<std::string>& skip) {
  return run_all(graph, lowering(), skip, Bodies::entered);
}
std::vector<PassRecord> lower_floats(ir::Graph& graph, const std::vector<std::string>& skip) {
  return run_all(graph, for_float8(), skip);
}
std::vector<PassRecord> adapt_to_gpu(ir::Graph& graph, const std::vector<std::string>& skip) {
  return run_all(graph, for_gpu(), skip, Bodies::entered);
}
std::vector<PassRecord> lower_for_host(ir::Graph& graph, const std::vector<std::string>& skip) {
  std::vector<PassRecord> records;
  for (const auto* list : {&before_host(), &lowering(), &for_host()})
    for (PassRecord& record : run_all(graph, *list, skip, Bodies::entered)) records.push_back(std::move(record));
  return records;
}
std::vector<PassRecord> leave_host(ir::Graph& graph, WeightOnly weight_only, const std::vector<std::string>& skip) {
  std::vector<PassRecord> records;
  const auto run_one = [&](const char* name) {
    if (std::find(skip.begin(), skip.end(), name) == skip.end()) records.push_back(run_pass(graph, *find(name)));
  };
  run_one("int16_convs_to_f32");
  run_one("weights_to_f32");
  run_one(weight_only == WeightOnly::kept ? "lower_weight_only" : "weight_only_to_f32");
  return records;
}
void return_to_cpu(ir::Graph& graph) {
  for (const char* pass : {"cast_to_f32", "remove_identity", "split_attention"}) run_pass(graph, pass);
}
std::vector<PassRecord> join_attention(ir::Graph& graph, const std::vector<std::string>& skip) {
  return run_all(graph, for_attention(), skip);
}
std::vector<PassRecord> round_products(ir::Graph& graph, const std::vector<std::string>& skip) {
  std::vector<PassRecord> records = join_attention(graph, skip);
  const Pass pass{"products_to_convolutions", "computes matrix multiplications by constant weights as convolutions",
                  products_to_convolutions};
  records.push_back(run(graph, pass, Bodies::left));
  return records;
}
std::vector<PassRecord> cast_to_16_bits(ir::Graph& graph, DType type, const std::vector<std::string>& skip) {
  std::vector<PassRecord> records = join_attention(graph, skip);
  const bool bf16 = type == DType::bf16;
  records.push_back(run(graph,
                        bf16 ? Pass{"cast_to_bf16", "computes large layers in bf16", cast_to_bf16}
                             : Pass{"cast_to_f16", "computes large layers in f16", cast_to_f16},
                        Bodies::left));
  for (PassRecord& record : run_all(graph, for_16_bits(), skip)) records.push_back(std::move(record));
  return records;
}

PassRecord run_pass(ir::Graph& graph, const Pass& pass) {
  prepare(graph);
  return run(graph, pass);
}

PassRecord run_pass(ir::Graph& graph, const std::string& name) {
  const Pass* pass = find(name);
  if (!pass) unknown(name);
  prepare(graph);
  return run(graph, *pass);
}

}  // namespace tenon::passes
