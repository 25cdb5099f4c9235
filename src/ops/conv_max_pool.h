// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

/// Internal ops ConvMaxPool and Int8ConvMaxPool: a convolution and a max pool of its result, both of channels last.
/// Inputs: those of Conv or Int8Conv. The attributes of the convolution stand behind the prefix "conv.", those of the
/// pool behind "pool.".
namespace tenon::ops {

/// The two as nodes of their own, with attributes and origins alone.
struct ConvMaxPool {
  ir::Node conv, pool;
};
ConvMaxPool conv_max_pool_of(const ir::Node& node);
/// Its attributes from those of the two.
ir::Attributes conv_max_pool_attributes(const ir::Node& conv, const ir::Node& pool);

}  // namespace tenon::ops
