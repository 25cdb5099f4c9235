// SPDX-License-Identifier: Apache-2.0
#include "case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>

#include "base/hash.h"
#include "ops/float8.h"
#include "ops/half.h"
#include "ops/op.h"

namespace tenon::tests {
namespace {

[[noreturn]] void fail(const Case& one, const std::string& why) { throw std::runtime_error(one.name() + ": " + why); }

void put(Tensor& tensor, int64_t at, double value) {
  switch (tensor.dtype()) {
    case DType::f32: tensor.data<float>()[at] = static_cast<float>(value); break;
    case DType::f64: tensor.data<double>()[at] = value; break;
    case DType::f16: tensor.data<uint16_t>()[at] = ops::f16_bits(static_cast<float>(value)); break;
    case DType::bf16: tensor.data<uint16_t>()[at] = ops::bf16_bits(static_cast<float>(value)); break;
    case DType::f8e4m3fn:
      tensor.data<uint8_t>()[at] = ops::f8_bits(static_cast<float>(value), tensor.dtype(), true);
      break;
    case DType::u8: tensor.data<uint8_t>()[at] = static_cast<uint8_t>(value); break;
    case DType::boolean: tensor.data<uint8_t>()[at] = value != 0; break;
    case DType::i8: tensor.data<int8_t>()[at] = static_cast<int8_t>(value); break;
    case DType::u16: tensor.data<uint16_t>()[at] = static_cast<uint16_t>(value); break;
    case DType::i16: tensor.data<int16_t>()[at] = static_cast<int16_t>(value); break;
    case DType::i32: tensor.data<int32_t>()[at] = static_cast<int32_t>(value); break;
    case DType::u32: tensor.data<uint32_t>()[at] = static_cast<uint32_t>(value); break;
    case DType::i64: tensor.data<int64_t>()[at] = static_cast<int64_t>(value); break;
    default: throw std::runtime_error("no values of type " + std::string(name(tensor.dtype())));
  }
}

/// What arithmetic treats in ways of its own.
const double odd_values[] = {3.4028234e38, -3.4028234e38, 0.0,      -0.0,      0x1p-126,
                             -0x1p-126,    0x1p-149,      INFINITY, -INFINITY, NAN};

Dims sizes_of(const std::string& text) {
  Dims dims;
  for (const std::string& size : split(text, 'x')) dims.push_back(std::stoll(size));
  return dims;
}

Tensor read_operand(const Case& one, const std::string& word, std::mt19937_64& random, bool& constant) {
  const size_t type_end = word.find_first_of(":![{");
  const auto dtype = dtype_named(word.substr(0, type_end));
  if (!dtype || type_end == std::string::npos) fail(one, "cannot read operand " + word);
  constant = word[type_end] == '!';
  std::string rest = word.substr(type_end + (constant ? 1 : 0));
  if (rest.size() >= 2 && (rest[0] == '[' || rest[0] == '{')) {
    const size_t end = rest.find_first_of("]}");
    const auto values = split(rest.substr(1, end - 1), ',');
    Dims dims = rest[0] == '{' ? Dims{} : Dims{static_cast<int64_t>(values.size())};
    if (end + 1 < rest.size()) dims = sizes_of(rest.substr(end + 2));
    Tensor tensor(*dtype, dims);
    for (size_t at = 0; at < values.size(); ++at) put(tensor, static_cast<int64_t>(at), std::stod(values[at]));
    return tensor;
  }
  const bool real = is_float(*dtype) || ops::is_float8(*dtype);
  double low = real ? -1 : 0, high = real ? 1 : 100;
  size_t every = 0;  // so many elements hold one odd one
  std::span<const double> odd = odd_values;
  if (const size_t mark = rest.find("(odd)"); mark != std::string::npos) {
    every = 13;
    rest.resize(mark);
  } else if (const size_t rare = rest.find("(rare)"); rare != std::string::npos) {
    every = 300;
    odd = odd.subspan(2);
    rest.resize(rare);
  }
  double step = 0;  // all are multiples of it
  if (const size_t bytes = rest.find("(bytes)"); bytes != std::string::npos) {
    step = 1.0 / 128;
    rest.resize(bytes);
  }
  if (const size_t range = rest.find('('); range != std::string::npos) {
    const auto ends = split(rest.substr(range + 1, rest.size() - range - 2), ',');
    low = std::stod(ends.at(0)), high = std::stod(ends.at(1));
    rest.resize(range);
  }
  const Dims dims = rest == ":scalar" ? Dims{} : sizes_of(rest.substr(1));
  Tensor tensor(*dtype, dims);
  for (int64_t at = 0, count = dims.elements(); at < count; ++at) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const double number = low + unit * (high - low);
    put(tensor, at, step > 0 ? std::floor(number / step) * step : real ? number : std::floor(number));
    if (every && random() % every == 0) put(tensor, at, odd[random() % odd.size()]);
  }
  return tensor;
}

/// Instructions are written with underscores, as spaces part the words of a line.
std::string spaced(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// reals:4(-1,1): so many numbers in a range, which they go through in no order.
std::vector<float> spread_reals(const std::string& text) {
  const size_t open = text.find('('), comma = text.find(',', open);
  const size_t count = std::stoul(text.substr(0, open));
  const float low = std::stof(text.substr(open + 1)), high = std::stof(text.substr(comma + 1));
  std::vector<float> list(count);
  for (size_t at = 0; at < count; ++at)
    list[at] = low + (high - low) * static_cast<float>(at * 7 % count) / static_cast<float>(count);
  return list;
}

ir::Attribute read_value(const std::string& text) {
  constexpr std::string_view reals_word = "reals:";
  if (text.starts_with(reals_word)) return spread_reals(text.substr(reals_word.size()));
  const auto number = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of("0123456789.-+e") == std::string::npos && word != "-";
  };
  const auto real = [](const std::string& word) { return word.find_first_of(".e") != std::string::npos; };
  if (text.front() == '[') {
    const auto words = split(text.substr(1, text.size() - 2), ',');
    std::vector<int64_t> integers;
    std::vector<float> reals;
    for (const std::string& word : words) {
      if (!number(word)) return words;
      if (real(word)) reals.push_back(std::stof(word));
      else integers.push_back(std::stoll(word));
    }
    if (!reals.empty()) return reals;
    return integers;
  }
  if (!number(text)) return text;
  if (real(text)) return std::stof(text);
  return static_cast<int64_t>(std::stoll(text));
}

Case read_line(Case one) {
  std::istringstream stream(one.text);
  // By the text, so that a case keeps its values when lines come and go above it.
  std::mt19937_64 random(
      hash64(std::as_bytes(std::span(one.text).first(std::min(one.text.size(), one.text.find(" ->"))))));
  std::string op, word;
  stream >> op;
  std::vector<ir::ValueId> inputs;
  ir::Attributes attributes;
  int64_t outputs = 1;
  std::vector<std::string>* kernels = nullptr;
  while (stream >> word) {
    if (word == "->" || word == "=>") {
      kernels = word == "->" ? &one.kernels : &one.gpu_kernels;
      continue;
    }
    if (kernels) {
      kernels->push_back(word);
      continue;
    }
    const size_t equal = word.find('=');
    if (equal != std::string::npos) {
      const std::string key = word.substr(0, equal), value = word.substr(equal + 1);
      if (key == "outputs") outputs = std::stoll(value);
      else if (key == "tolerance") one.tolerance = std::stod(value);
      else attributes[key] = read_value(key == "program" ? spaced(value) : value);
      continue;
    }
    bool constant = false;
    one.odd |= word.find("(odd)") != std::string::npos || word.find("(rare)") != std::string::npos;
    one.operands.push_back(word == "_" ? Tensor() : read_operand(one, word, random, constant));
    one.constant.push_back(constant);
    const Tensor& tensor = one.operands.back();
    const std::string name = "in" + std::to_string(inputs.size());
    if (!tensor) inputs.push_back(ir::no_value);
    else if (constant) inputs.push_back(one.graph.add_constant(name, tensor));
    else {
      inputs.push_back(
          one.graph.add_value(name, tensor.dtype(), ir::Shape(tensor.dims().begin(), tensor.dims().end())));
      one.graph.inputs.push_back(inputs.back());
    }
  }
  std::vector<ir::ValueId> results;
  for (int64_t at = 0; at < outputs; ++at) results.push_back(one.graph.add_value("out" + std::to_string(at)));
  one.graph.outputs = results;
  one.graph.add_node(op, inputs, results, attributes, {op});
  ops::infer(one.graph);
  return one;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<Case> read_cases(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".cases") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& path : files) {
    std::ifstream stream(path);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      Case one;
      one.file = path.stem();
      one.text = line;
      one.line = number;
      cases.push_back(read_line(std::move(one)));
    }
  }
  return cases;
}

std::vector<Tensor> reference(const Case& one) { return ops::evaluate(one.node(), one.operands); }

std::string described(Gaps gaps) {
  return gaps == Gaps::none ? "" : gaps == Gaps::rows ? " on views" : " on views of images that lie apart";
}

backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, int threads, Gaps gaps) {
  backends::Problem problem;
  problem.node = &one.node();
  problem.threads = threads;
  const auto operand = [&](const Tensor& tensor, bool constant) {
    backends::Operand result;
    if (!tensor) return result;
    result.dtype = tensor.dtype();
    result.dims = tensor.dims();
    Dims room = tensor.dims();
    if (gaps == Gaps::rows && !constant && room.rank() > 1) room[room.rank() - 1] += 3;
    if (gaps == Gaps::images && !constant && room.rank() > 2) room[1] += 1;
    result.strides = backends::dense_strides(room);
    if (constant) result.constant = tensor;
    return result;
  };
  for (size_t at = 0; at < one.operands.size(); ++at)
    problem.inputs.push_back(operand(one.operands[at], one.constant[at]));
  for (const Tensor& tensor : outputs) problem.outputs.push_back(operand(tensor, false));
  return problem;
}

}  // namespace tenon::tests
