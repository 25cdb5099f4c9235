// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ir/dim.h"

namespace tenon::ir {

/// Symbolic sizes as a list of operations on integers, equal parts once: evaluating them all takes nanoseconds each.
class DimProgram {
 public:
  static constexpr int none = -1;
  /// Which symbols sizes may have: those that symbol() was asked for, or any.
  enum class Symbols : uint8_t { asked, any };
  explicit DimProgram(Symbols allowed = Symbols::asked) : allowed_(allowed) {}
  enum class Kind : uint8_t { constant, symbol, sum, difference, product, floor_quotient };
  struct Operation {
    Kind kind;
    int64_t left, right;  // places of operands; of a constant or symbol, and of a divisor, the number itself
    auto operator<=>(const Operation&) const = default;
  };
  /// A symbol's number, by which evaluate() is given its value.
  int symbol(const std::string& name);
  /// Where evaluate() leaves the size; `none` where it holds a symbol that is not allowed.
  int add(const Dim& dim);
  /// The values of everything added, from those of the symbols. False where one is beyond 64 bits.
  bool evaluate(std::span<const int64_t> symbols, std::vector<int64_t>& values) const;
  size_t symbols() const { return symbols_.size(); }
  /// Whether a size takes no symbol away anywhere, so that its quotients are not rounded below zero.
  bool rises(int64_t place) const;
  /// By place, operands before what reads them.
  std::span<const Operation> operations() const { return operations_; }

 private:
  struct Reader;
  int put(const Operation& operation);

  Symbols allowed_;
  std::map<std::string, int> symbols_;
  std::map<Operation, int> known_;
  std::vector<Operation> operations_;
};

}  // namespace tenon::ir
