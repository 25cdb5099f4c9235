// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "base/check.h"
#include "ir/graph.h"

namespace tenon::ir {
namespace {

bool is_plain(std::string_view text, std::string_view extra) {
  for (char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          extra.find(c) != std::string_view::npos))
      return false;
  return !text.empty();
}

std::string quoted(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// The shortest text that reads back to the same number, always with a mark that tells it from an integer.
template <class T>
std::string real(T number) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  Printer(std::vector<Tensor>* pool, size_t inline_limit) : pool_(pool), inline_limit_(inline_limit) {}

  void graph(const Graph& graph, const std::string& indent) {
    text += indent + "graph " + quoted(graph.name) + "\n";
    for (ValueId id : graph.inputs) text += indent + "input " + typed(graph.value(id)) + "\n";
    for (const Value& value : graph.values)
      if (value.is_constant()) text += indent + "const " + typed(value) + " = " + elements(value.constant) + "\n";
    for (const Node& node : graph.nodes)
      if (node.alive) this->node(graph, node, indent);
    for (size_t at = 0; at < graph.outputs.size(); ++at) {
      text += indent + "output " + name(graph.value(graph.outputs[at]).name);
      if (at < graph.output_names.size()) text += " as " + quoted(graph.output_names[at]);
      text += "\n";
    }
    for (const auto& [key, content] : graph.metadata)
      text += indent + "meta " + quoted(key) + " = " + quoted(content) + "\n";
  }

  std::string text;

 private:
  static std::string name(const std::string& name) { return "%" + (is_plain(name, "./-") ? name : quoted(name)); }

  static std::string typed(const Value& value) {
    std::string text = name(value.name) + " : ";
    text += value.dtype == DType::undefined ? "?" : std::string(tenon::name(value.dtype));
    return value.shape ? text + str(*value.shape) : text;
  }

  void node(const Graph& graph, const Node& node, const std::string& indent) {
    text += indent;
    for (size_t at = 0; at < node.outputs.size(); ++at) {
      const ValueId id = node.outputs[at];
      text += (at ? ", " : "") + (id == no_value ? "_" : typed(graph.value(id)));
    }
    text += (node.outputs.empty() ? "= " : " = ") +
            (is_plain(node.op.str(), ".:") ? node.op.str() : quoted(node.op.str())) + "(";
    for (size_t at = 0; at < node.inputs.size(); ++at) {
      const ValueId id = node.inputs[at];
      text += (at ? ", " : "") + (id == no_value ? "_" : name(graph.value(id).name));
    }
    text += ")";
    if (!node.attributes.empty()) {
      text += " {";
      bool first = true;
      for (const auto& [key, attribute] : node.attributes) {
        text += (first ? "" : ", ") + (is_plain(key, "") ? key : quoted(key)) + "=";
        first = false;
        this->attribute(attribute, indent);
      }
      text += "}";
    }
    if (!node.origins.empty()) text += " from " + list(node.origins, quoted);
    text += "\n";
  }

  template <class Items, class Format>
  static std::string list(const Items& items, Format format) {
    std::string text = "[";
    for (size_t at = 0; at < items.size(); ++at) text += (at ? ", " : "") + format(items[at]);
    return text + "]";
  }

  void attribute(const Attribute& attribute, const std::string& indent) {
    struct Visitor {
      Printer& printer;
      const std::string& indent;
      void operator()(int64_t number) { printer.text += std::to_string(number); }
      void operator()(float number) { printer.text += real(number); }
      void operator()(const std::string& content) { printer.text += quoted(content); }
      void operator()(const std::vector<int64_t>& items) {
        printer.text += list(items, [](int64_t item) { return std::to_string(item); });
      }
      void operator()(const std::vector<float>& items) {
        printer.text += items.empty() ? "floats[]" : list(items, real<float>);
      }
      void operator()(const std::vector<std::string>& items) {
        printer.text += items.empty() ? "strings[]" : list(items, quoted);
      }
      void operator()(const Tensor& tensor) {
        printer.text += "tensor " + std::string(tenon::name(tensor.dtype())) + type_dims(tensor) + " ";
        printer.text += printer.elements(tensor);
      }
      void operator()(const GraphRef& inner) {
        printer.text += "{\n";
        if (inner) printer.graph(*inner, indent + "  ");
        printer.text += indent + "}";
      }
    };
    std::visit(Visitor{*this, indent}, attribute);
  }

  static std::string type_dims(const Tensor& tensor) {
    std::string text = "[";
    for (size_t at = 0; at < tensor.dims().rank(); ++at) text += (at ? "," : "") + std::to_string(tensor.dims()[at]);
    return text + "]";
  }

  template <class T>
  static std::string integers(const Tensor& tensor) {
    std::string text = "{";
    for (int64_t at = 0; at < tensor.elements(); ++at) text += (at ? ", " : "") + std::to_string(tensor.data<T>()[at]);
    return text + "}";
  }

  template <class T>
  static std::string reals(const Tensor& tensor) {
    std::string text = "{";
    for (int64_t at = 0; at < tensor.elements(); ++at) text += (at ? ", " : "") + real(tensor.data<T>()[at]);
    return text + "}";
  }

  /// Inline where small, else a reference into the pool, else "...". 8- and 16-bit floats are shown as their bits.
  std::string elements(const Tensor& tensor) {
    const bool small = static_cast<size_t>(tensor.elements()) <= inline_limit_ && tensor.dtype() != DType::sequence;
    if (!small) {
      if (!pool_) return "...";
      pool_->push_back(tensor);
      return "@" + std::to_string(pool_->size() - 1);
    }
    switch (tensor.dtype()) {
      case DType::f32: return reals<float>(tensor);
      case DType::f64: return reals<double>(tensor);
      case DType::i64: return integers<int64_t>(tensor);
      case DType::i32: return integers<int32_t>(tensor);
      case DType::i16: return integers<int16_t>(tensor);
      case DType::i8: case DType::i4: return integers<int8_t>(tensor);
      case DType::u64: return integers<uint64_t>(tensor);
      case DType::u32: return integers<uint32_t>(tensor);
      case DType::u16: case DType::f16: case DType::bf16: return integers<uint16_t>(tensor);
      case DType::string: {
        std::string text = list(tensor.strings(), quoted);
        text.front() = '{';
        text.back() = '}';
        return text;
      }
      default: return integers<uint8_t>(tensor);
    }
  }

  std::vector<Tensor>* pool_;
  size_t inline_limit_;
};

}  // namespace

std::string print(const Graph& graph, std::vector<Tensor>* pool, size_t inline_limit) {
  Printer printer(pool, inline_limit);
  printer.graph(graph, "");
  return std::move(printer.text);
}

}  // namespace tenon::ir
