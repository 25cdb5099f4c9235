// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::einsum {
namespace {

constexpr size_t most_labels = 64;

/// An equation with its labels numbered: those of the output first, in its order.
struct Equation {
  std::vector<std::vector<size_t>> operands;  // label of each axis
  size_t outputs = 0, labels = 0;
};

/// One term of the equation as characters; axes under "..." become codes from 256 on, counted from the right.
template <class Context>
std::vector<int> read_term(Context& ctx, const std::string& text, size_t rank, bool is_output, size_t ellipsis) {
  std::vector<int> term;
  bool dots = false;
  size_t letters = 0;
  for (char c : text) letters += std::isalpha(static_cast<unsigned char>(c)) ? 1 : 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(text[at]))) {
      term.push_back(text[at]);
      continue;
    }
    if (text.compare(at, 3, "...") != 0 || dots) ctx.fail("the equation's term \"" + text + "\" cannot be read");
    dots = true;
    at += 2;
    if (!is_output && letters > rank) ctx.fail("the term \"" + text + "\" has more labels than the operand has axes");
    const size_t covered = is_output ? ellipsis : rank - letters;
    for (size_t k = covered; k-- > 0;) term.push_back(256 + static_cast<int>(k));
  }
  if (!is_output && term.size() != rank)
    ctx.fail("the term \"" + text + "\" labels " + counted(term.size(), "axis") + " of an operand of rank " +
             std::to_string(rank));
  return term;
}

template <class Context>
Equation read_equation(Context& ctx, const std::vector<size_t>& ranks) {
  const std::string text = ctx.node().text("equation", "");
  const size_t arrow = text.find("->");
  std::vector<std::vector<int>> terms;
  std::string left = text.substr(0, arrow);
  size_t begin = 0;
  for (size_t k = 0; k < ranks.size(); ++k) {
    const size_t comma = left.find(',', begin);
    if ((comma == std::string::npos) != (k + 1 == ranks.size()))
      ctx.fail("the equation \"" + text + "\" is not for " + counted(ranks.size(), "operand"));
    terms.push_back(read_term(ctx, left.substr(begin, comma - begin), ranks[k], false, 0));
    begin = comma + 1;
  }
  std::map<int, int> uses;
  size_t ellipsis = 0;
  for (const auto& term : terms)
    for (int code : term) {
      ++uses[code];
      if (code >= 256) ellipsis = std::max(ellipsis, static_cast<size_t>(code - 255));
    }
  std::vector<int> output;
  if (arrow != std::string::npos) {
    output = read_term(ctx, text.substr(arrow + 2), 0, true, ellipsis);
  } else {
    for (size_t k = ellipsis; k-- > 0;) output.push_back(256 + static_cast<int>(k));
    for (const auto& [code, count] : uses)
      if (code < 256 && count == 1) output.push_back(code);
  }
  std::map<int, size_t> number;
  for (int code : output) {
    if (!uses.count(code)) ctx.fail("the output of \"" + text + "\" has a label that no operand has");
    if (!number.emplace(code, number.size()).second) ctx.fail("the output of \"" + text + "\" has a label twice");
  }
  Equation equation;
  equation.outputs = number.size();
  for (const auto& [code, count] : uses) number.emplace(code, number.size());
  equation.labels = number.size();
  if (equation.labels > most_labels || equation.outputs > Dims::max_rank) ctx.fail("the equation has too many labels");
  for (const auto& term : terms) {
    equation.operands.emplace_back();
    for (int code : term) equation.operands.back().push_back(number[code]);
  }
  return equation;
}

void infer(Inference& ctx) {
  std::vector<size_t> ranks;
  for (size_t k = 0; k < ctx.inputs(); ++k) {
    if (!ctx.shape(k)) return ctx.set(0, ctx.dtype(0), std::nullopt);
    ranks.push_back(ctx.shape(k)->size());
  }
  const Equation equation = read_equation(ctx, ranks);
  ir::Shape sizes(equation.labels, ir::Dim(1));
  for (size_t k = 0; k < ranks.size(); ++k)
    for (size_t axis = 0; axis < ranks[k]; ++axis) {
      ir::Dim& size = sizes[equation.operands[k][axis]];
      size = broadcast_dim(ctx, size, (*ctx.shape(k))[axis]);
    }
  sizes.resize(equation.outputs);
  ctx.set(0, ctx.dtype(0), std::move(sizes));
}

/// The sum over all labels that the output lacks of the product of the operands.
void evaluate(Evaluation& ctx) {
  std::vector<size_t> ranks;
  for (size_t k = 0; k < ctx.inputs(); ++k) ranks.push_back(ctx.input(k).dims().rank());
  const Equation equation = read_equation(ctx, ranks);
  const size_t operands = ranks.size();
  std::vector<int64_t> sizes(equation.labels, 1);
  std::vector<std::vector<int64_t>> strides(operands, std::vector<int64_t>(equation.labels, 0));
  for (size_t k = 0; k < operands; ++k) {
    const Dims& dims = ctx.input(k).dims();
    const Strides own = strides_of(dims);
    for (size_t axis = 0; axis < ranks[k]; ++axis) {
      const size_t label = equation.operands[k][axis];
      if (dims[axis] == 1) continue;
      if (sizes[label] != 1 && sizes[label] != dims[axis])
        ctx.fail("a label stands for sizes " + std::to_string(sizes[label]) + " and " + std::to_string(dims[axis]));
      sizes[label] = dims[axis];
      strides[k][label] += own[axis];
    }
  }
  Dims out;
  int64_t terms = 1;
  for (size_t label = 0; label < equation.labels; ++label)
    if (label < equation.outputs) out.push_back(sizes[label]);
    else terms *= sizes[label];
  dispatch<Numbers>(ctx, ctx.input(0).dtype(), [&]<class T>(Type<T>) {
    using W = Wide<T>;
    using Sum = std::conditional_t<std::is_floating_point_v<W>, double, W>;
    std::vector<const T*> from;
    for (size_t k = 0; k < operands; ++k) {
      want_same_dtype(ctx, ctx.input(0).dtype(), ctx.input(k).dtype());
      from.push_back(ctx.input(k).template data<T>());
    }
    Tensor& y = ctx.output(0, ctx.input(0).dtype(), out);
    std::vector<int64_t> index(equation.labels, 0), offset(operands, 0);
    const auto advance = [&](size_t first, size_t last) {
      for (size_t label = last; label-- > first;) {
        for (size_t k = 0; k < operands; ++k) offset[k] += strides[k][label];
        if (++index[label] < sizes[label]) return;
        for (size_t k = 0; k < operands; ++k) offset[k] -= strides[k][label] * sizes[label];
        index[label] = 0;
      }
    };
    const int64_t count = out.elements();
    for (int64_t at = 0; at < count; ++at) {
      Sum sum = 0;
      for (int64_t term = 0; term < terms; ++term) {
        Sum product = 1;
        for (size_t k = 0; k < operands; ++k) product = scalar::mul<Sum>(product, static_cast<W>(from[k][offset[k]]));
        sum = scalar::add<Sum>(sum, product);
        advance(equation.outputs, equation.labels);
      }
      y.template data<T>()[at] = static_cast<T>(static_cast<W>(sum));
      advance(0, equation.outputs);
    }
  });
}

TENON_OP("Einsum", 1, -1, 1, 1, infer, evaluate, {attr::text("equation").required()});

}  // namespace
}  // namespace tenon::ops::einsum
