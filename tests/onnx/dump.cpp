// SPDX-License-Identifier: Apache-2.0
/// Prints what the reader makes of a file, for tests/onnx/compare.py. usage: onnx_dump FILE.onnx…
#include <cstdio>

#include "base/file.h"
#include "onnx/import.h"
#include "onnx/tensor.h"
#include "tenon/error.h"

namespace {

using namespace tenon;

uint32_t crc32(const std::byte* bytes, size_t count, uint32_t crc) {
  crc = ~crc;
  for (size_t at = 0; at < count; ++at) {
    crc ^= static_cast<uint8_t>(bytes[at]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

void print(const char* kind, std::string_view name, const Tensor& tensor) {
  uint32_t crc = 0;
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.strings())
      crc = crc32(reinterpret_cast<const std::byte*>(text.data()), text.size(), crc);
  } else {
    crc = crc32(tensor.data<std::byte>(), tensor.bytes(), 0);
  }
  std::printf("%s %s %d %s %08x\n", kind, std::string(name).c_str(), static_cast<int>(tensor.dtype()),
              tensor.dims().str().c_str(), crc);
}

void dump(const onnx::GraphProto& graph, const onnx::Source& source) {
  for (const auto& tensor : graph.initializers) print("initializer", tensor.name, decode(tensor, source));
  for (const auto& node : graph.nodes) {
    std::printf("node %s %s", std::string(node.name).c_str(), std::string(node.op).c_str());
    for (const auto& name : node.inputs) std::printf(" <%s", std::string(name).c_str());
    for (const auto& name : node.outputs) std::printf(" >%s", std::string(name).c_str());
    std::printf("\n");
    for (const auto& attribute : node.attributes) {
      std::printf("attribute %s %d %.9g %lld %s", std::string(attribute.name).c_str(), static_cast<int>(attribute.type),
                  attribute.real, static_cast<long long>(attribute.integer), std::string(attribute.text).c_str());
      for (float value : attribute.reals) std::printf(" %.9g", value);
      for (int64_t value : attribute.integers) std::printf(" %lld", static_cast<long long>(value));
      for (const auto& value : attribute.texts) std::printf(" %s", std::string(value).c_str());
      std::printf("\n");
      if (attribute.tensor) print("tensor", attribute.name, decode(*attribute.tensor, source));
      if (attribute.graph) dump(*attribute.graph, source);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  int failed = 0;
  for (int at = 1; at < count; ++at) {
    const std::string path = words[at];
    try {
      const auto file = MappedFile::open(path);
      const auto external = std::make_shared<onnx::ExternalData>(path.substr(0, path.rfind('/')));
      std::printf("file %s\n", path.c_str());
      const onnx::ModelProto model = onnx::parse_model(file->bytes(), path);
      dump(model.graph, {path, file, external});
      const ir::Graph graph = onnx::import_file(path, {.knows = [](const ir::OpId&) { return true; }});
      ir::verify(graph);
      std::printf("graph %zu %zu\n", graph.inputs.size(), graph.outputs.size());
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      std::fprintf(stderr, "%s: %s\n", path.c_str(), ours ? ours->text().c_str() : error.what());
      ++failed;
    }
  }
  return failed > 0;
}
