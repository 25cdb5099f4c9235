// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <charconv>
#include <unordered_map>

#include "base/checked.h"
#include "base/counted.h"
#include "ir/graph.h"
#include "ir/limits.h"

namespace tenon::ir {
namespace {

constexpr int max_depth = 16;  // of nested subgraphs

/// Reads the text form in one pass. Line ends are blanks; '#' starts a comment.
class Parser {
 public:
  Parser(std::string_view text, const std::vector<Tensor>& pool) : text_(text), pool_(pool) {}

  Graph whole() {
    Graph graph = this->graph(0);
    blanks();
    if (at_ != text_.size()) fail("unexpected text after the graph");
    return graph;
  }

 private:
  using Names = std::unordered_map<std::string, ValueId>;

  [[noreturn]] void fail(const std::string& what) const {
    size_t line = 1;
    for (size_t at = 0; at < at_ && at < text_.size(); ++at) line += text_[at] == '\n';
    throw Error(Code::invalid_model, "graph text: " + what, {.where = "line " + std::to_string(line)});
  }

  void blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  static bool is_word(char c, std::string_view extra) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           extra.find(c) != std::string_view::npos;
  }
  std::string_view word(std::string_view extra = "") {
    blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_], extra)) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// Takes the word where it stands next as a whole.
  bool keyword(std::string_view expected) {
    blanks();
    const size_t begin = at_;
    if (word() == expected) return true;
    at_ = begin;
    return false;
  }

  int hex_digit() {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail("expected two hexadecimal digits after \\x");
  }
  std::string quoted() {
    expect('"');
    std::string result;
    for (;;) {
      if (at_ >= text_.size()) fail("a quoted text has no end");
      char c = text_[at_++];
      if (c == '"') return result;
      if (c == '\\') {
        if (at_ >= text_.size()) fail("a quoted text has no end");
        c = text_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c == 'x') {
          const int high = hex_digit();
          c = static_cast<char>(high * 16 + hex_digit());
        } else if (c != '"' && c != '\\') {
          fail("unknown escape");
        }
      }
      result += c;
    }
  }
  std::string word_or_quoted(std::string_view extra, const char* what) {
    if (peek() == '"') return quoted();
    const std::string_view found = word(extra);
    if (found.empty()) fail(std::string("expected ") + what);
    return std::string(found);
  }
  std::string value_name() {
    expect('%');
    return word_or_quoted("./-", "a value name");
  }

  template <class T>
  T number(std::string_view token) const {
    T result{};
    const auto [end, fault] = std::from_chars(token.data(), token.data() + token.size(), result);
    if (fault != std::errc() || end != token.data() + token.size())
      fail("'" + std::string(token) + "' is no number of its type");
    return result;
  }
  template <class T>
  T number() {
    return number<T>(word("+-."));
  }

  template <class Item>
  void items(char close, Item item) {
    if (take(close)) return;
    do item();
    while (take(','));
    expect(close);
  }

  DType dtype() {
    if (take('?')) return DType::undefined;
    const std::string_view found = word();
    const auto type = dtype_named(found);
    if (!type) fail("unknown element type '" + std::string(found) + "'");
    return *type;
  }
  std::optional<Shape> shape() {
    if (!take('[')) return std::nullopt;
    Shape shape;
    items(']', [&] {
      const std::string_view text = word("?.+-*/()");
      const auto dim = text.size() <= max_dim_text ? Dim::parse(text) : std::nullopt;
      if (!dim) fail("'" + std::string(text.substr(0, 64)) + "' is no size");
      shape.push_back(*dim);
    });
    return shape;
  }

  template <class T>
  Tensor numbers(DType type, const Dims& dims) {
    std::vector<T> values;
    items('}', [&] { values.push_back(number<T>()); });
    count(values.size(), dims);
    return Tensor::of<T>(type, dims, values);
  }
  void count(size_t found, const Dims& dims) const {
    if (static_cast<int64_t>(found) != dims.elements()) fail(counted(found, "element") + " for sizes " + dims.str());
  }

  /// "{…}" or "@k", for a type and sizes read before.
  Tensor elements(DType type, const Shape& shape) {
    Dims dims;
    for (const Dim& dim : shape) {
      if (!dim.is_constant() || dim.value() < 0) fail("a constant needs known sizes");
      dims.push_back(dim.value());
    }
    if (take('@')) {
      const auto index = number<uint64_t>(word());
      if (index >= pool_.size()) fail("there is no tensor @" + std::to_string(index));
      const Tensor& tensor = pool_[index];
      if (tensor.dtype() != type || !(tensor.dims() == dims))
        fail("tensor @" + std::to_string(index) + " is of another type");
      return tensor;
    }
    if (peek() == '.') fail("the elements of this constant were left out of the text");
    expect('{');
    switch (type) {
      case DType::f32: return numbers<float>(type, dims);
      case DType::f64: return numbers<double>(type, dims);
      case DType::i64: return numbers<int64_t>(type, dims);
      case DType::i32: return numbers<int32_t>(type, dims);
      case DType::i16: return numbers<int16_t>(type, dims);
      case DType::i8: case DType::i4: return numbers<int8_t>(type, dims);
      case DType::u64: return numbers<uint64_t>(type, dims);
      case DType::u32: return numbers<uint32_t>(type, dims);
      case DType::u16: case DType::f16: case DType::bf16: return numbers<uint16_t>(type, dims);
      case DType::string: {
        std::vector<std::string> strings;
        items('}', [&] { strings.push_back(quoted()); });
        count(strings.size(), dims);
        return Tensor::of_strings(dims, std::move(strings));
      }
      case DType::undefined: case DType::sequence: fail("a constant needs an element type");
      default: return numbers<uint8_t>(type, dims);
    }
  }

  static bool is_real(std::string_view token) { return token.find_first_of(".en") != std::string_view::npos; }

  Attribute list() {
    if (take(']')) return std::vector<int64_t>{};
    if (peek() == '"') {
      std::vector<std::string> strings;
      items(']', [&] { strings.push_back(quoted()); });
      return strings;
    }
    std::vector<std::string_view> tokens;
    bool real = false;
    items(']', [&] {
      tokens.push_back(word("+-."));
      real = real || is_real(tokens.back());
    });
    if (real) {
      std::vector<float> reals;
      for (std::string_view token : tokens) reals.push_back(number<float>(token));
      return reals;
    }
    std::vector<int64_t> integers;
    for (std::string_view token : tokens) integers.push_back(number<int64_t>(token));
    return integers;
  }

  Attribute attribute(int depth) {
    if (take('[')) return list();
    if (peek() == '"') return quoted();
    if (take('{')) {
      if (depth + 1 > max_depth) fail("subgraphs are nested too deep");
      auto inner = std::make_shared<Graph>(graph(depth + 1));
      expect('}');
      return inner;
    }
    if (keyword("floats")) {
      expect('[');
      expect(']');
      return std::vector<float>{};
    }
    if (keyword("strings")) {
      expect('[');
      expect(']');
      return std::vector<std::string>{};
    }
    if (keyword("tensor")) {
      const DType type = dtype();
      const auto dims = shape();
      if (!dims) fail("a tensor needs sizes");
      return elements(type, *dims);
    }
    const std::string_view token = word("+-.");
    if (is_real(token)) return number<float>(token);
    return number<int64_t>(token);
  }

  ValueId define(Graph& graph, Names& names) {
    std::string name = value_name();
    if (names.count(name)) fail("value %" + name.substr(0, 64) + " is defined twice");
    expect(':');
    const DType type = dtype();
    const ValueId id = graph.add_value(name, type, shape());
    names.emplace(std::move(name), id);
    return id;
  }
  ValueId use(const Names& names) {
    const std::string name = value_name();
    const auto found = names.find(name);
    if (found == names.end()) fail("value %" + name.substr(0, 64) + " is not defined before its use");
    return found->second;
  }

  void node(Graph& graph, Names& names, int depth) {
    std::vector<ValueId> outputs, inputs;
    if (peek() != '=') do outputs.push_back(keyword("_") ? no_value : define(graph, names));
      while (take(','));
    expect('=');
    std::string op = word_or_quoted(".:", "an operation");
    expect('(');
    items(')', [&] { inputs.push_back(keyword("_") ? no_value : use(names)); });
    for (ValueId id : inputs)
      for (ValueId output : outputs)
        if (id != no_value && id == output) fail("a node uses its own output");
    Attributes attributes;
    if (take('{'))
      items('}', [&] {
        std::string key = word_or_quoted("", "an attribute name");
        expect('=');
        if (!attributes.emplace(std::move(key), attribute(depth)).second) fail("an attribute is given twice");
      });
    std::vector<std::string> origins;
    if (keyword("from")) {
      expect('[');
      items(']', [&] { origins.push_back(quoted()); });
    }
    graph.add_node(std::move(op), std::move(inputs), std::move(outputs), std::move(attributes), std::move(origins));
  }

  Graph graph(int depth) {
    Graph graph;
    Names names;
    if (!keyword("graph")) fail("expected 'graph'");
    graph.name = quoted();
    for (;;) {
      const char next = peek();
      if (next == '\0' || next == '}') break;
      if (keyword("input")) {
        graph.inputs.push_back(define(graph, names));
      } else if (keyword("const")) {
        const ValueId id = define(graph, names);
        expect('=');
        if (!graph.value(id).shape) fail("a constant needs sizes");
        graph.value(id).constant = elements(graph.value(id).dtype, *graph.value(id).shape);
      } else if (keyword("output")) {
        graph.outputs.push_back(use(names));
        graph.output_names.push_back(keyword("as") ? quoted() : graph.value(graph.outputs.back()).name);
      } else if (keyword("meta")) {
        std::string key = quoted();
        expect('=');
        graph.metadata[std::move(key)] = quoted();
      } else if (next == '%' || next == '_' || next == '=') {
        node(graph, names, depth);
      } else {
        fail("expected a statement");
      }
    }
    return graph;
  }

  std::string_view text_;
  const std::vector<Tensor>& pool_;
  size_t at_ = 0;
};

}  // namespace

Graph parse(std::string_view text, const std::vector<Tensor>& pool) { return Parser(text, pool).whole(); }

}  // namespace tenon::ir
