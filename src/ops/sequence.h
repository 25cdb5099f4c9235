// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ops/op.h"

/// Values of type sequence: they have no shape; their `content`, where known, is one number: the items' element type.
namespace tenon::ops {

inline void set_sequence(Inference& ctx, size_t output, DType items) {
  ctx.set(output, DType::sequence, std::nullopt);
  if (items != DType::undefined) ctx.set_content(output, {ir::Dim(static_cast<int64_t>(items))});
}

/// Undefined while unknown.
inline DType item_type(const Inference& ctx, size_t input) {
  if (const Tensor* constant = ctx.constant(input); constant && constant->dtype() == DType::sequence)
    return constant->sequence().empty() ? DType::undefined : constant->sequence()[0].dtype();
  const auto content = ctx.content(input);
  return content && content->size() == 1 && (*content)[0].is_constant() ? static_cast<DType>((*content)[0].value())
                                                                        : DType::undefined;
}

inline const std::vector<Tensor>& items_of(const Evaluation& ctx, size_t input) {
  if (!ctx.has(input) || ctx.input(input).dtype() != DType::sequence)
    ctx.fail("input " + std::to_string(input) + " is no sequence");
  return ctx.input(input).sequence();
}

}  // namespace tenon::ops
