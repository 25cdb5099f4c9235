// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

/// Internal ops PointwisePair and Int8PointwisePair: a pointwise convolution, of channels last, and another one of its
/// result, as between two blocks of a ResNet. Inputs: those of the first, Conv or Int8Conv, all places filled, then
/// those of the second behind its x. Outputs: the results of both. The attributes stand behind "first." and "second.".
namespace tenon::ops {

/// The two as nodes of their own, with attributes and origins alone, and the inputs of the whole that they read.
struct PointwisePair {
  ir::Node first, second;
  size_t second_begins;  // the input of the whole that is the second's weights
};
PointwisePair pointwise_pair_of(const ir::Node& node);
/// Its inputs and attributes from the two.
std::vector<ir::ValueId> pointwise_pair_inputs(const ir::Node& first, const ir::Node& second);
ir::Attributes pointwise_pair_attributes(const ir::Node& first, const ir::Node& second);

}  // namespace tenon::ops
