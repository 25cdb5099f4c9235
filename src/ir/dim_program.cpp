// SPDX-License-Identifier: Apache-2.0
#include "ir/dim_program.h"

#include <charconv>
#include <string_view>

namespace tenon::ir {

/// Reads the text form of a size, which ir::Dim keeps its terms in.
struct DimProgram::Reader {
  DimProgram& program;
  std::string_view text;
  size_t at = 0;

  bool take(char c) {
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  int64_t integer() {
    int64_t value = 0;
    at += static_cast<size_t>(std::from_chars(text.data() + at, text.data() + text.size(), value).ptr -
                              (text.data() + at));
    return value;
  }
  int factor() {
    if (at < text.size() && text[at] >= '0' && text[at] <= '9') return program.put({Kind::constant, integer(), 0});
    if (take('(')) {
      const int inside = sum();
      if (!take(')') || !take('/') || !take('/')) return none;
      const int64_t divisor = integer();
      return inside == none || divisor == 0 ? none : program.put({Kind::floor_quotient, inside, divisor});
    }
    const size_t begin = at;
    while (at < text.size() && std::string_view("*+-()/").find(text[at]) == std::string_view::npos) ++at;
    const std::string name(text.substr(begin, at - begin));
    if (program.allowed_ == Symbols::any) return program.put({Kind::symbol, program.symbol(name), 0});
    const auto found = program.symbols_.find(name);
    return found == program.symbols_.end() ? none : program.put({Kind::symbol, found->second, 0});
  }
  int term() {
    int result = factor();
    while (result != none && take('*')) {
      const int next = factor();
      result = next == none ? none : program.put({Kind::product, result, next});
    }
    return result;
  }
  int sum() {
    int result;
    if (take('-')) {
      const int first = term();
      result = first == none ? none : program.put({Kind::difference, program.put({Kind::constant, 0, 0}), first});
    } else {
      result = term();
    }
    while (result != none && at < text.size() && (text[at] == '+' || text[at] == '-')) {
      const Kind kind = text[at++] == '+' ? Kind::sum : Kind::difference;
      const int next = term();
      result = next == none ? none : program.put({kind, result, next});
    }
    return result;
  }
};

int DimProgram::symbol(const std::string& name) {
  return symbols_.emplace(name, static_cast<int>(symbols_.size())).first->second;
}

int DimProgram::put(const Operation& operation) {
  const auto [place, is_new] = known_.emplace(operation, static_cast<int>(operations_.size()));
  if (is_new) operations_.push_back(operation);
  return place->second;
}

int DimProgram::add(const Dim& dim) {
  if (dim.is_constant()) return put({Kind::constant, dim.value(), 0});
  const std::string text = dim.str();
  Reader reader{*this, text};
  const int result = reader.sum();
  return reader.at == text.size() ? result : none;
}

bool DimProgram::rises(int64_t place) const {
  const auto [kind, left, right] = operations_[static_cast<size_t>(place)];
  switch (kind) {
    case Kind::constant: return left >= 0;
    case Kind::symbol: return true;
    case Kind::sum:
    case Kind::product: return rises(left) && rises(right);
    case Kind::difference: return rises(left) && operations_[static_cast<size_t>(right)].kind == Kind::constant;
    case Kind::floor_quotient: return right > 0 && rises(left);
  }
  return false;
}

bool DimProgram::evaluate(std::span<const int64_t> symbols, std::vector<int64_t>& values) const {
  values.resize(operations_.size());
  for (size_t at = 0; at < operations_.size(); ++at) {
    const auto [kind, left, right] = operations_[at];
    const auto value = [&](int64_t place) { return values[static_cast<size_t>(place)]; };
    int64_t& result = values[at];
    switch (kind) {
      case Kind::constant: result = left; break;
      case Kind::symbol: result = symbols[static_cast<size_t>(left)]; break;
      case Kind::sum:
        if (__builtin_add_overflow(value(left), value(right), &result)) return false;
        break;
      case Kind::difference:
        if (__builtin_sub_overflow(value(left), value(right), &result)) return false;
        break;
      case Kind::product:
        if (__builtin_mul_overflow(value(left), value(right), &result)) return false;
        break;
      case Kind::floor_quotient: {
        const int64_t a = value(left);
        if (right == -1 && a == INT64_MIN) return false;
        result = a / right - ((a % right != 0) && ((a < 0) != (right < 0)));
        break;
      }
    }
  }
  return true;
}

}  // namespace tenon::ir
