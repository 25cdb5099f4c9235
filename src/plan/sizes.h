// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/dim_program.h"
#include "plan/agreement.h"
#include "plan/layout.h"

namespace tenon::plan {

/// The sizes of a graph's values, and the constants that sizes decide, as functions of the inputs' sizes. What it gives
/// was checked node by node as inference checks it.
class Sizes {
 public:
  /// `symbolic`: the graph that `graph` was made from for the sizes of `layout`. nullptr where some size or constant is
  /// no such function.
  static std::unique_ptr<const Sizes> of(const ir::Graph& symbolic, std::shared_ptr<const ir::Graph> graph,
                                         const Layout& layout);
  /// False where these sizes take the long way, on which a fault of theirs is told.
  bool evaluate(const Shapes& inputs, std::vector<Dims>& sizes, Decided& decided) const;

 private:
  /// An input's size: a symbol that it gives, or what it must be.
  struct Given {
    std::string input;
    size_t axis;
    int symbol, value;  // one of them; the other is DimProgram::none
  };
  struct Content {
    ir::ValueId value;
    DType dtype;
    Dims dims;
    std::vector<int> elements;
  };
  Sizes() = default;
  bool add_inputs(const ir::Graph& symbolic);
  bool add_constant(const ir::Graph& symbolic, const std::map<std::string, ir::ValueId>& names, ir::ValueId id);
  bool add_value(const ir::Graph& symbolic, const std::map<std::string, ir::ValueId>& names, ir::ValueId id);

  std::shared_ptr<const ir::Graph> graph_;
  ir::DimProgram program_;
  std::map<std::string, size_t> ranks_;  // of the inputs
  std::vector<Given> given_;
  std::vector<Dims> fixed_;                    // of constants; of others by sizes_
  std::vector<std::vector<int>> sizes_;        // by value, places of the program
  std::vector<Content> contents_;
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace tenon::plan
