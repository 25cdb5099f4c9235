// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

#include "passes/passes.h"
#include "passes/repeated_heads.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_columns = 160, most_of_values = 128;

/// A value as another one, transposed and times a number.
struct Source {
  ir::ValueId value;
  Perm perm;
  double scale = 1;
};

constexpr int64_t most_mask = int64_t{1} << 26;  // elements of one that is put together here

/// Sizes and strides of a dense tensor as four axes; strides of 0 repeat.
struct Four {
  int64_t size[4], stride[4];
  explicit Four(const Dims& dims) {
    const size_t gap = 4 - dims.rank();
    int64_t step = 1;
    for (size_t at = 4; at-- > 0;) {
      size[at] = at < gap ? 1 : dims[at - gap];
      stride[at] = size[at] == 1 ? 0 : step;
      step *= size[at];
    }
  }
};

/// The sum of two tensors of f32 of up to four axes that repeat along axes of size 1; empty where it is too large.
Tensor sum(const Tensor& a, const Tensor& b) {
  const Four x(a.dims()), y(b.dims());
  Dims dims;
  for (size_t at = 0; at < 4; ++at) {
    if (x.size[at] != y.size[at] && x.size[at] != 1 && y.size[at] != 1) return {};
    dims.push_back(std::max(x.size[at], y.size[at]));
  }
  if (dims.elements() > most_mask) return {};
  Tensor result(DType::f32, dims);
  float* to = result.data<float>();
  for (int64_t i = 0; i < dims[0]; ++i)
    for (int64_t j = 0; j < dims[1]; ++j)
      for (int64_t k = 0; k < dims[2]; ++k)
        for (int64_t l = 0; l < dims[3]; ++l)
          *to++ = a.data<float>()[i * x.stride[0] + j * x.stride[1] + k * x.stride[2] + l * x.stride[3]] +
                  b.data<float>()[i * y.stride[0] + j * y.stride[1] + k * y.stride[2] + l * y.stride[3]];
  return result;
}

/// Walks from a product of weights and values back to its origins. Scores and weights must serve nothing else.
class AttentionMatcher {
 public:
  AttentionMatcher(ir::Graph& graph, ir::NodeId last)
      : graph_(graph), last_(graph.node(last)), origins_(last_.origins) {}

  bool run(ir::NodeId id) {
    if (!is_last(last_) || graph_.value(last_.outputs[0]).dtype != DType::f32) return false;
    const ir::Node* softmax = softmax_of(last_.inputs[0]);
    const auto rank = softmax ? rank_of(graph_, softmax->inputs[0]) : std::nullopt;
    if (!rank || *rank < 3 || *rank > 4 || axis_of(softmax->integer("axis", -1), *rank) != *rank - 1) return false;
    const ir::Node* product = scores_of(softmax->inputs[0]);
    if (!product || (head_scales_ && *rank < 4)) return false;
    Source q = source_of(product->inputs[0], *rank), k = source_of(product->inputs[1], *rank);
    std::swap(k.perm[*rank - 1], k.perm[*rank - 2]);
    const Source v{last_.inputs[1], {}, 1};
    if (!fits(q, k, v, *rank)) return false;
    if (!(scale_ * q.scale * k.scale > 0)) return false;
    const std::string name = graph_.value(last_.outputs[0]).name;
    scale_by_head(q, name + ".q.scaled");
    const ir::ValueId queries = placed(q, name + ".q");
    ir::ValueId keys = placed(k, name + ".k"), values = v.value;
    const Repeated of_keys = repeated(graph_, keys), of_values = repeated(graph_, values);
    if (of_keys.times > 1 && of_keys.times == of_values.times)
      keys = unrepeated(of_keys, name + ".k.shared"), values = unrepeated(of_values, name + ".v.shared");
    std::vector<ir::ValueId> inputs{queries, keys, values};
    if (mask_ != ir::no_value) inputs.push_back(mask_);
    ir::Attributes attributes{{"scale", static_cast<float>(scale_ * q.scale * k.scale)}};
    if (nan_to_zero_) attributes["nan_to_zero"] = int64_t{1};
    for (const char* word : {"activation", "alpha", "beta"})
      if (last_.has(word)) attributes[word] = last_.attributes.at(word);
    ir::ValueId result = graph_.apply("tenon:DotAttention", inputs, attributes, origins_, name);
    if (const ir::ValueId other = residual(last_); other != ir::no_value) {
      graph_.value(result).dtype = DType::f32, graph_.value(result).shape = graph_.value(last_.outputs[0]).shape;
      result = graph_.apply("Add", {result, other}, {}, last_.origins, name);
    }
    replace(graph_, id, result);
    return true;
  }

 private:
  void note(const ir::Node& node) { origins_ = joined(node.origins, origins_); }
  static ir::ValueId residual(const ir::Node& node) { return node.inputs.size() > 3 ? node.inputs[3] : ir::no_value; }
  /// A product, or one that a value of its shape, such as the queries in MViT, is added to.
  bool is_last(const ir::Node& node) const {
    if (node.op != "MatMul" || (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) || node.has("slopes"))
      return false;
    const ir::ValueId other = residual(node);
    return other == ir::no_value || (!node.has("activation") && same_shape(graph_, other, node.outputs[0]));
  }
  bool is_zero(ir::ValueId id) const {
    const Tensor* tensor = graph_.constant(id);
    if (!tensor || tensor->dtype() != DType::f32) return false;
    const float* numbers = tensor->data<float>();
    return std::all_of(numbers, numbers + tensor->elements(), [](float x) { return x == 0; });
  }

  /// The softmax whose results are the weights, also where those that are not numbers become 0.
  const ir::Node* softmax_of(ir::ValueId weights) {
    if (const ir::Node* where = sole(graph_, weights, "Where")) {
      const ir::Node* test = sole(graph_, where->inputs[0], "IsNaN");
      const ir::ValueId given = where->inputs[2];
      if (!test || test->inputs[0] != given || !is_zero(where->inputs[1])) return nullptr;
      if (graph_.value(given).users.size() != 2 || graph_.is_output(given)) return nullptr;
      note(*where), note(*test);
      nan_to_zero_ = true;
      const ir::Node* softmax = made_by(graph_, given, "Softmax");
      if (softmax) note(*softmax);
      return softmax;
    }
    const ir::Node* softmax = sole(graph_, weights, "Softmax");
    if (softmax) note(*softmax);
    return softmax;
  }

  bool take_mask(ir::ValueId mask) {
    if (scale_ != 1 || head_scales_ || graph_.value(mask).dtype != DType::f32) return false;
    if (is_zero(mask)) return true;
    if (mask_ == ir::no_value && windows_.empty()) {
      mask_ = mask;
      return true;
    }
    // Masks that are known now become one.
    const Tensor* found = graph_.constant(mask);
    const Tensor* before = mask_ == ir::no_value ? nullptr : graph_.constant(mask_);
    Tensor all = found ? of_windows(*found) : Tensor();
    if (!all || (mask_ != ir::no_value && (!before || before->dims().rank() > 4))) return false;
    if (before) all = sum(all, *before);
    if (all) mask_ = graph_.add_constant(graph_.value(mask).name + ".all", all);
    return static_cast<bool>(all);
  }
  /// A mask as it is for scores whose first axis holds the windows of all images: those of one image where all have the
  /// same; empty where it is none.
  Tensor of_windows(const Tensor& mask) const {
    const Dims& dims = mask.dims();
    const size_t rank = dims.rank();
    if (windows_.empty()) return rank <= 4 ? mask : Tensor();
    if (rank > 5) return {};
    if (rank < 4) return mask;
    const int64_t images = rank == 5 ? dims[0] : 1, windows = dims[rank - 4];
    const bool all = ir::Dim(windows) == windows_[1];
    if ((windows != 1 && !all) || (images != 1 && (!all || !(ir::Dim(images) == windows_[0])))) return {};
    return mask.reshaped({images * windows, dims[rank - 3], dims[rank - 2], dims.back()});
  }
  /// Scores of [images * windows, heads, …] seen as [images, windows, heads, …] for a mask of windows.
  bool take_reshape(const ir::Node& node) {
    const ir::Shape *inner = shape_of(graph_, node.inputs[0]), *outer = shape_of(graph_, node.outputs[0]);
    if (!inner || !outer) return false;
    const bool opens = inner->size() == 5 && outer->size() == 4, closes = inner->size() == 4 && outer->size() == 5;
    const ir::Shape& five = opens ? *inner : *outer;
    const ir::Shape& four = opens ? *outer : *inner;
    if (opens == closes || opens != windows_.empty() || !(five[0] * five[1] == four[0]) ||
        !ir::is_constant({five.begin() + 1, five.end()}) || !std::equal(four.begin() + 1, four.end(), five.begin() + 2))
      return false;
    if (opens) windows_ = {five[0], five[1]};
    else windows_.clear();
    return true;
  }
  /// Factors of heads, which queries can be multiplied by instead.
  bool take_head_scales(ir::ValueId factors) {
    const Tensor* tensor = graph_.constant(factors);
    if (!tensor || tensor->dtype() != DType::f32 || head_scales_ || !windows_.empty()) return false;
    const Dims& dims = tensor->dims();
    const bool by_head = dims.rank() >= 3 && dims.rank() <= 4 && dims[dims.rank() - 3] == tensor->elements();
    if (by_head) head_scales_ = *tensor;
    return by_head;
  }
  /// One step from the product's sum to the softmax, seen from its end: times a number or those of heads, or plus a
  /// mask.
  bool take(const std::string& word, bool first, ir::ValueId other, std::optional<double> number) {
    if (word == "add" && other != ir::no_value) return take_mask(other);
    if (word == "mul" && !number && other != ir::no_value) return take_head_scales(other);
    if (!number || (word != "mul" && word != "div") || (word == "div" && !first)) return false;
    scale_ *= word == "mul" ? *number : 1 / *number;
    return true;
  }
  bool take(const ir::Node& node, ir::ValueId& scores) {
    for (size_t side = 0; side < 2; ++side) {
      const ir::ValueId other = node.inputs[1 - side];
      const ir::Node* maker = graph_.producer(node.inputs[side]);
      if (!maker || graph_.only_user(node.inputs[side]) == ir::no_node || graph_.constant(node.inputs[side])) continue;
      if (maker->op != "MatMul" && maker->op != "Mul" && maker->op != "Div" && maker->op != "Add" &&
          maker->op != "Reshape")
        continue;
      const char* word = node.op == "Add" ? "add" : node.op == "Mul" ? "mul" : "div";
      if (!take(word, side == 0, other, scalar(graph_, other))) continue;
      scores = node.inputs[side];
      return true;
    }
    return false;
  }
  /// A program whose lines each take the one before: "mul %0 0.125", "add %2 %1".
  bool take_program(const ir::Node& node, ir::ValueId& scores) {
    const auto found = node.attributes.find("program");
    const auto* lines =
        found == node.attributes.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
    if (!lines) return false;
    for (size_t input = 0; input < node.inputs.size(); ++input)
      if (sole(graph_, node.inputs[input], "MatMul")) scores = node.inputs[input];
    const auto count = node.inputs.size();
    for (size_t at = lines->size(); at-- > 0;) {
      std::istringstream line((*lines)[at]);
      std::string word, left, right;
      if (!(line >> word >> left >> right)) return false;
      const auto input_of = [&](const std::string& text) {
        size_t index = count;
        if (text[0] == '%') std::from_chars(text.data() + 1, text.data() + text.size(), index);
        return text[0] == '%' && index < count ? node.inputs[index] : ir::no_value;
      };
      const auto is_before = [&](const std::string& text) {
        return at > 0 ? text == "%" + std::to_string(count + at - 1)
                      : scores != ir::no_value && input_of(text) == scores;
      };
      const bool first = is_before(left);
      if (!first && !is_before(right)) return false;
      const std::string& other = first ? right : left;
      float number = 0;
      const bool literal =
          other[0] != '%' && std::from_chars(other.data(), other.data() + other.size(), number).ec == std::errc();
      const ir::ValueId value = literal ? ir::no_value : input_of(other);
      if (value != ir::no_value && value == scores) return false;
      if (!take(word, first, value, literal ? std::optional<double>(number) : std::nullopt)) return false;
    }
    return scores != ir::no_value;
  }

  /// The product of queries and keys, with what lies between it and the softmax taken along.
  const ir::Node* scores_of(ir::ValueId scores) {
    for (;;) {
      const ir::Node* node = graph_.producer(scores);
      if (!node || graph_.only_user(scores) == ir::no_node) return nullptr;
      note(*node);
      if (node->op == "Reshape") {
        if (!take_reshape(*node)) return nullptr;
        scores = node->inputs[0];
        continue;
      }
      if (node->op == "MatMul") {
        if (!windows_.empty() || node->has("activation") ||
            (node->inputs.size() > 2 && node->inputs[2] != ir::no_value))
          return nullptr;
        return node->inputs.size() < 4 || take_mask(node->inputs[3]) ? node : nullptr;
      }
      ir::ValueId next = ir::no_value;
      const bool simple = node->op == "Add" || node->op == "Mul" || node->op == "Div";
      if (simple ? !take(*node, next) : node->op != "tenon:Elementwise" || !take_program(*node, next)) return nullptr;
      scores = next;
    }
  }

  Source source_of(ir::ValueId value, size_t rank) {
    Source source{value, Perm(rank), 1};
    std::iota(source.perm.begin(), source.perm.end(), 0);
    for (;;) {
      const ir::Node* node = graph_.producer(source.value);
      if (!node) return source;
      if (node->op == "Transpose" && node->has("perm")) {
        source.perm = compose(node->integers("perm"), source.perm);
        source.value = node->inputs[0];
      } else if (node->op == "Mul" || node->op == "Div") {
        const size_t side = node->op == "Mul" && scalar(graph_, node->inputs[0]) ? 0 : 1;
        const auto number = scalar(graph_, node->inputs[side]);
        const ir::ValueId other = node->inputs[1 - side];
        if (!number || *number == 0 || rank_of(graph_, other) != rank) return source;
        source.scale *= node->op == "Mul" ? *number : 1 / *number;
        source.value = other;
      } else {
        return source;
      }
      note(*node);
    }
  }
  ir::ValueId placed(const Source& source, const std::string& name) {
    if (is_identity(source.perm)) return source.value;
    const ir::Value from = graph_.value(source.value);
    const ir::ValueId value = graph_.apply("Transpose", {source.value}, {{"perm", source.perm}}, origins_, name);
    graph_.value(value).dtype = from.dtype;
    graph_.value(value).shape = permuted(*from.shape, source.perm);
    return value;
  }

  /// Multiplies queries by the factors of heads, where there are some, as they lie.
  void scale_by_head(Source& q, const std::string& name) {
    if (!head_scales_) return;
    Dims dims{1, 1, 1, 1};
    dims[static_cast<size_t>(q.perm[1])] = head_scales_.elements();
    const ir::Value from = graph_.value(q.value);
    const ir::ValueId factors = graph_.add_constant(name + ".by", head_scales_.reshaped(dims));
    q.value = graph_.apply("Mul", {q.value, factors}, {}, origins_, name);
    graph_.value(q.value).dtype = from.dtype, graph_.value(q.value).shape = from.shape;
  }

  /// The heads before they were repeated, [b, g, n, d]; the axis of one goes before they are transposed.
  ir::ValueId unrepeated(const Repeated& from, const std::string& name) {
    const Untransposed from_five = untransposed_of(graph_, from.heads);
    const bool is_transposed = from_five.value != from.heads;
    const Perm& perm = from_five.perm;
    const int64_t gone = perm[2];
    const std::string rows = is_transposed ? name + ".rows" : name;
    const ir::ValueId sizes = constant(graph_, rows + ".sizes", *target_without(graph_, from_five.value, gone));
    const ir::Shape shape = without(graph_, from_five.value, gone);
    const ir::ValueId four = graph_.apply("Reshape", {from_five.value, sizes}, {}, from.origins, rows);
    graph_.value(four).dtype = DType::f32, graph_.value(four).shape = shape;
    if (!is_transposed) return four;
    Perm left;
    for (size_t axis = 0; axis < 5; ++axis)
      if (axis != 2) left.push_back(perm[axis] - (perm[axis] > gone));
    note(*graph_.producer(from.heads));
    return placed({four, left, 1}, name);
  }

  bool fits(const Source& q, const Source& k, const Source& v, size_t rank) const {
    ir::Shape shapes[3];
    const Source* sources[] = {&q, &k, &v};
    for (size_t at = 0; at < 3; ++at) {
      const ir::Shape* shape = shape_of(graph_, sources[at]->value);
      if (!shape || shape->size() != rank || graph_.value(sources[at]->value).dtype != DType::f32 ||
          graph_.constant(sources[at]->value))
        return false;
      shapes[at] = sources[at]->perm.empty() ? *shape : permuted(*shape, sources[at]->perm);
      const ir::Dim& columns = shapes[at].back();
      if (!columns.is_constant() || columns.value() < 1) return false;
      if (columns.value() > (at < 2 ? most_columns : most_of_values)) return false;
    }
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      if (!(shapes[0][axis] == shapes[1][axis]) || !(shapes[0][axis] == shapes[2][axis])) return false;
    return shapes[0].back() == shapes[1].back() && shapes[1][rank - 2] == shapes[2][rank - 2];
  }

  ir::Graph& graph_;
  const ir::Node last_;
  std::vector<std::string> origins_;
  ir::ValueId mask_ = ir::no_value;
  ir::Shape windows_;  // images, and windows of each, between two reshapes
  double scale_ = 1;
  Tensor head_scales_;  // of the scores; empty where all have one
  bool nan_to_zero_ = false;
};

}  // namespace

bool fuse_attention(ir::Graph& graph) {
  return each_node(graph,
                   [&](ir::NodeId id) { return graph.node(id).op == "MatMul" && AttentionMatcher(graph, id).run(id); });
}

}  // namespace tenon::passes
