// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_elements = int64_t{1} << 21;  // of a matrix: more takes longer than what it saves is worth

/// exp(2 pi i k / n), quarters of the circle exactly.
std::array<double, 2> root(int64_t k, int64_t n) {
  constexpr std::array<double, 2> quarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  if (4 * k % n == 0) return quarters[4 * k / n];
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

/// A transform of `length` numbers, of which `given` are there, as a matrix: a row for each part (real, imaginary) of
/// an input, a column for each part of a result.
struct Transform {
  int64_t given, parts, length, bins, results;
  bool inverse, real;  // real: of the first half of what is its own mirror, the line that it was made of

  int64_t rows() const { return given * parts; }
  int64_t columns() const { return bins * results; }
  bool fits() const {
    return given > 0 && length > 0 && bins > 0 && rows() <= most_elements && columns() <= most_elements / rows();
  }
  std::vector<float> matrix(const float* window) const {
    std::vector<float> all(static_cast<size_t>(rows() * columns()));
    const int64_t used = std::min(given, real ? length / 2 + 1 : length);
    for (int64_t i = 0; i < used; ++i) {
      const bool alone = !real || 2 * i % length == 0;
      const double scale = (window ? window[i] : 1.) * (alone ? 1 : 2) / (inverse ? static_cast<double>(length) : 1.);
      for (int64_t k = 0; k < bins; ++k) {
        const auto [cosine, sine] = root(i * k % length, length);
        const double c = scale * cosine, s = inverse ? 0 - scale * sine : scale * sine;
        const double parts_of[2][2] = {{c, 0 - s}, {s, c}};
        for (int64_t p = 0; p < parts; ++p)
          for (int64_t q = 0; q < results; ++q)
            all[(i * parts + p) * columns() + k * results + q] = static_cast<float>(parts_of[p][q]);
      }
    }
    return all;
  }
};

ir::ValueId input_of(const ir::Node& node, size_t at) {
  return at < node.inputs.size() ? node.inputs[at] : ir::no_value;
}

/// The integer of an optional input; none where it is not known, `otherwise` where there is no such input.
std::optional<int64_t> integer_of(const ir::Graph& graph, const ir::Node& node, size_t at, int64_t otherwise) {
  if (input_of(node, at) == ir::no_value) return otherwise;
  const auto list = integers(graph, input_of(node, at));
  return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
}

/// What a Reshape to this shape is given: one size at most may be unknown.
std::optional<std::vector<int64_t>> sizes_of(const ir::Shape& shape) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : shape) sizes.push_back(dim.is_constant() ? dim.value() : -1);
  return std::count(sizes.begin(), sizes.end(), -1) < 2 ? std::optional(sizes) : std::nullopt;
}

class Builder {
 public:
  Builder(ir::Graph& graph, const ir::Node& node)
      : graph_(graph), origins_(node.origins), name_(graph.value(node.outputs[0]).name) {}
  ir::ValueId apply(const char* op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes,
                    const ir::Shape& shape) {
    const ir::ValueId made = graph_.apply(op, inputs, attributes, origins_, name_);
    graph_.value(made).dtype = DType::f32, graph_.value(made).shape = shape;
    return made;
  }
  ir::ValueId reshape(ir::ValueId x, const std::vector<int64_t>& sizes, const ir::Shape& shape) {
    return apply("Reshape", {x, constant(graph_, name_ + ".sizes", sizes)}, {}, shape);
  }
  ir::ValueId transpose(ir::ValueId x, const Perm& perm, const ir::Shape& shape) {
    return is_identity(perm) ? x : apply("Transpose", {x}, {{"perm", perm}}, permuted(shape, perm));
  }
  ir::ValueId weights(const Dims& dims, const std::vector<float>& numbers) {
    return constant(graph_, name_ + ".roots", dims, numbers);
  }

 private:
  ir::Graph& graph_;
  std::vector<std::string> origins_;
  std::string name_;
};

bool lower_dft(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Shape* known = shape_of(graph, node.inputs[0]);
  const auto given_axis = integer_of(graph, node, 2, -2);
  if (!known || known->size() < 2 || !given_axis || graph.value(node.inputs[0]).dtype != DType::f32) return false;
  const ir::Shape x = *known;
  const size_t rank = x.size();
  const auto axis = axis_of(*given_axis, rank);
  if (!axis || *axis + 1 == rank || !x[*axis].is_constant() || !x.back().is_constant()) return false;
  const bool inverse = node.integer("inverse", 0), onesided = node.integer("onesided", 0), real = inverse && onesided;
  const int64_t given = x[*axis].value(), parts = x.back().value();
  const auto length = integer_of(graph, node, 1, real ? 2 * (given - 1) : given);
  if (!length || parts < 1 || parts > 2) return false;
  const Transform transform{given,        parts,   *length, onesided && !real ? *length / 2 + 1 : *length,
                            real ? 1 : 2, inverse, real};
  if (!transform.fits()) return false;
  Perm there(rank);  // the axis goes before the parts
  for (size_t at = 0; at < rank; ++at)
    there[at] = static_cast<int64_t>(at == rank - 1 || at < *axis ? at : at == rank - 2 ? *axis : at + 1);
  ir::Shape rows = permuted(x, there);
  rows.pop_back();
  rows.back() = transform.rows();
  ir::Shape columns = rows, whole = rows;
  columns.back() = transform.columns();
  whole.back() = transform.bins;
  whole.push_back(transform.results);
  const auto row_sizes = sizes_of(rows), whole_sizes = sizes_of(whole);
  if (!row_sizes || !whole_sizes) return false;
  Builder build(graph, node);
  const ir::ValueId lines = build.reshape(build.transpose(node.inputs[0], there, x), *row_sizes, rows);
  const ir::ValueId matrix = build.weights({transform.rows(), transform.columns()}, transform.matrix(nullptr));
  const ir::ValueId product = build.apply("MatMul", {lines, matrix}, {}, columns);
  replace(graph, id, build.transpose(build.reshape(product, *whole_sizes, whole), passes::inverse(there), whole));
  return true;
}

/// The transforms of windowed frames of a real signal are a convolution, whose channels are the parts of the results.
bool lower_stft(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Shape *known = shape_of(graph, node.inputs[0]), *made = shape_of(graph, node.outputs[0]);
  const auto step = integer_of(graph, node, 1, 0);
  if (!known || !made || made->size() != 4 || !step || *step < 1 || graph.value(node.inputs[0]).dtype != DType::f32)
    return false;
  const ir::Shape x = *known, result = *made;
  if (x.size() < 2 || x.size() > 3 || !x[1].is_constant() ||
      (x.size() == 3 && (!x[2].is_constant() || x[2].value() != 1)))
    return false;
  const Tensor* window = nullptr;
  if (input_of(node, 2) != ir::no_value) {
    window = graph.constant(input_of(node, 2));
    if (!window || window->dtype() != DType::f32) return false;
  }
  const auto length = integer_of(graph, node, 3, window ? window->elements() : 0);
  if (!length || *length < 1 || *length > x[1].value() || (window && window->elements() != *length)) return false;
  const Transform transform{*length, 1,     *length, node.integer("onesided", 1) ? *length / 2 + 1 : *length,
                            2,       false, false};
  const ir::Shape signal{x[0], 1, x[1]}, channels{x[0], transform.columns(), result[1]};
  const auto signal_sizes = sizes_of(signal), result_sizes = sizes_of(result);
  if (!transform.fits() || !signal_sizes || !result_sizes) return false;
  const std::vector<float> matrix = transform.matrix(window ? window->data<float>() : nullptr);
  std::vector<float> taps(matrix.size());  // [column][1][row]
  for (int64_t row = 0; row < transform.rows(); ++row)
    for (int64_t at = 0; at < transform.columns(); ++at)
      taps[at * transform.rows() + row] = matrix[row * transform.columns() + at];
  Builder build(graph, node);
  const ir::ValueId lines = build.reshape(node.inputs[0], *signal_sizes, signal);
  const ir::ValueId weights = build.weights({transform.columns(), 1, *length}, taps);
  const ir::ValueId frames = build.apply(
      "Conv", {lines, weights},
      {{"kernel_shape", std::vector<int64_t>{*length}}, {"strides", std::vector<int64_t>{*step}}}, channels);
  replace(graph, id, build.reshape(build.transpose(frames, {0, 2, 1}, channels), *result_sizes, result));
  return true;
}

}  // namespace

bool lower_fourier(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::OpId op = graph.node(id).op;
    return op == "DFT" ? lower_dft(graph, id) : op == "STFT" && lower_stft(graph, id);
  });
}

}  // namespace tenon::passes
