// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/graph.h"

/// What products of quantised values read.
namespace tenon::passes {

/// A tensor of bytes and the real numbers that it stands for: (byte - zero) * scale. Bytes are u8, or e4m3 floats whose
/// zero point is 0.
struct Bytes {
  ir::ValueId value, scale, zero;
};

constexpr DType float8 = DType::f8e4m3fn;

/// Activations of 16 bits, whichever their zero point: signed ones have one that is 32768 higher.
constexpr DType int16 = DType::u16;

/// Scales for each entry of the last axis in input 1 of a node, with one zero point for all in input 2.
bool has_last_scales(const ir::Graph& graph, const ir::Node& node);
/// The zero point that several are.
ir::ValueId first_zero(ir::Graph& graph, ir::ValueId zeros);
bool same_scale(const ir::Graph& graph, const Bytes& a, const Bytes& b);

/// What a value is read from, where a DequantizeLinear of `byte` with one scale makes it.
std::optional<Bytes> bytes_of(const ir::Graph& graph, ir::ValueId id, DType byte);
/// bytes_of, or bytes with a scale for each channel.
std::optional<Bytes> residual_of(ir::Graph& graph, ir::ValueId id, DType byte);
/// bytes_of, or of 16 bits the numbers themselves where these are whole steps: kernels quantise them while they read.
std::optional<Bytes> operand_of(ir::Graph& graph, ir::ValueId id, DType byte);

struct QuantisedWeights {
  ir::ValueId value, scales;
};

/// Weights of bytes with one scale and zero point, or one for each entry of `axis`, as whole numbers around 0;
/// beside `byte` of e4m3 such floats, without zero points.
std::optional<QuantisedWeights> quantised_weights(ir::Graph& graph, ir::ValueId id, int64_t axis, DType byte);
/// Whether sums of an input's products by these stay within 32 bits, where it is of 16.
bool holds_products(const ir::Graph& graph, const Bytes& x, const Tensor& weights);

/// The bytes of a depthwise convolution's input that have a scale for each channel, as ones of scale 1 by weights whose
/// scales are multiplied by those; nullopt where it is another.
std::optional<Bytes> depthwise_by_channel(ir::Graph& graph, const ir::Node& conv, QuantisedWeights& weights);

}  // namespace tenon::passes
