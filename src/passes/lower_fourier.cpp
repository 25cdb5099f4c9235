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

/// Two factors of a length, as near to each other as they come.
std::array<int64_t, 2> factors_of(int64_t length) {
  auto small = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
  while (length % small != 0) --small;
  return {small, length / small};
}

/// A transform of n = N2 n1 + n2 numbers to k = k1 + N1 k2: over n1, each n2 with what turns its results, then over n2.
struct Stages {
  int64_t parts, first, second;
  bool inverse;

  int64_t length() const { return first * second; }
  int64_t products() const { return 2 * length() * (parts * first + 2 * second); }  // of a line

  /// The matrix of numbers `step` apart, of which number `at` is the first: a row for each part of an input.
  void matrix(float* to, int64_t rows_parts, int64_t count, int64_t step, int64_t at, double scale) const {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < count; ++k) {
        const auto [cosine, sine] = root((i * step + at) * k % length(), length());
        const double c = scale * cosine, s = inverse ? 0 - scale * sine : scale * sine;
        const double parts_of[2][2] = {{c, 0 - s}, {s, c}};
        for (int64_t p = 0; p < rows_parts; ++p)
          for (int64_t q = 0; q < 2; ++q)
            to[((i * rows_parts + p) * count + k) * 2 + q] = static_cast<float>(parts_of[p][q]);
      }
  }
};

/// The transforms of `lines` lines in two stages of smaller matrices.
ir::ValueId in_stages(Builder& build, ir::ValueId x, const Stages& stages, int64_t lines) {
  const int64_t first = stages.first, second = stages.second, ins = first * stages.parts;
  const auto shaped = [&](ir::ValueId value, const std::vector<int64_t>& sizes) {
    return build.reshape(value, sizes, ir::Shape(sizes.begin(), sizes.end()));
  };
  std::vector<float> turned(static_cast<size_t>(second * ins * first * 2)),
      last(static_cast<size_t>(4 * second * second));
  for (int64_t at = 0; at < second; ++at)
    stages.matrix(&turned[at * ins * first * 2], stages.parts, first, second, at, 1);
  stages.matrix(last.data(), 2, second, first, 0, stages.inverse ? 1 / static_cast<double>(stages.length()) : 1);
  ir::ValueId y = shaped(x, {lines, first, second, stages.parts});
  y = build.transpose(y, {2, 0, 1, 3}, {lines, first, second, stages.parts});
  y = build.apply("MatMul", {shaped(y, {second, lines, ins}), build.weights({second, ins, first * 2}, turned)}, {},
                  {second, lines, first * 2});
  y = build.transpose(shaped(y, {second, lines, first, 2}), {1, 2, 0, 3}, {second, lines, first, 2});
  y = build.apply("MatMul", {shaped(y, {lines * first, second * 2}), build.weights({second * 2, second * 2}, last)}, {},
                  {lines * first, second * 2});
  return build.transpose(shaped(y, {lines, first, second, 2}), {0, 2, 1, 3}, {lines, first, second, 2});
}

/// Two stages for a transform, where they save most of its products.
std::optional<Stages> in_two_stages(const Transform& transform, const ir::Shape& x) {
  constexpr int64_t least = 1 << 16;  // elements of a matrix whose products take longer than what stages turn around
  const int64_t length = transform.length;
  if (transform.given != length || transform.bins != length || transform.real || length < 2 || length > most_elements ||
      !ir::is_constant(x) || ir::product(x).value() == 0)
    return std::nullopt;
  const auto [first, second] = factors_of(length);
  const Stages stages{transform.parts, first, second, transform.inverse};
  const int64_t products = 2 * length * length * transform.parts;
  const bool saves = products > least && 4 * stages.products() < products;
  return saves && stages.products() <= most_elements ? std::optional(stages) : std::nullopt;
}

/// What is transformed, without the imaginary parts where they are zeros that a Concat has put there.
ir::ValueId real_of(const ir::Graph& graph, ir::ValueId x) {
  const ir::Node* made = graph.producer(x);
  const ir::Shape* shape = shape_of(graph, x);
  if (!made || made->op != "Concat" || made->inputs.size() != 2 || !shape ||
      axis_of(made->integer("axis", 0), shape->size()) != shape->size() - 1)
    return x;
  const Tensor* zeros = graph.constant(made->inputs[1]);
  const ir::Shape* real = shape_of(graph, made->inputs[0]);
  if (!zeros || zeros->dtype() != DType::f32 || !real || !(real->back() == ir::Dim(1))) return x;
  const float* all = zeros->data<float>();
  return std::all_of(all, all + zeros->elements(), [](float one) { return one == 0; }) ? made->inputs[0] : x;
}

bool lower_dft(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::ValueId input = real_of(graph, node.inputs[0]);
  const ir::Shape* known = shape_of(graph, input);
  const auto given_axis = integer_of(graph, node, 2, -2);
  if (!known || known->size() < 2 || !given_axis || graph.value(input).dtype != DType::f32) return false;
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
  const auto stages = in_two_stages(transform, x);
  if (!stages && !transform.fits()) return false;
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
  const ir::ValueId turned = build.transpose(input, there, x);
  ir::ValueId product;
  if (stages) {
    product = in_stages(build, turned, *stages, ir::product(x).value() / transform.rows());
  } else {
    const ir::ValueId lines = build.reshape(turned, *row_sizes, rows);
    const ir::ValueId matrix = build.weights({transform.rows(), transform.columns()}, transform.matrix(nullptr));
    product = build.apply("MatMul", {lines, matrix}, {}, columns);
  }
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
