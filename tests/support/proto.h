// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Just enough of a protobuf writer to make ONNX models, also ones that no library would write.
namespace tenon::test {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
/// A length-delimited field.
inline std::string field(int number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string field(int number, const char* text) { return field(number, std::string(text)); }
inline std::string field(int number, uint64_t value) { return varint(number << 3) + varint(value); }
inline std::string field(int number, int value) {
  return field(number, static_cast<uint64_t>(static_cast<int64_t>(value)));
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Attributes of a node.
inline std::string integer(const char* name, int64_t value) {
  return field(5, field(1, name) + field(3, static_cast<uint64_t>(value)) + field(20, 2));
}
inline std::string integers(const char* name, const std::vector<int64_t>& values) {
  std::string bytes = field(1, name);
  for (int64_t value : values) bytes += field(8, static_cast<uint64_t>(value));
  return field(5, bytes + field(20, 7));
}
inline std::string text(const char* name, const char* value) {
  return field(5, field(1, name) + field(4, value) + field(20, 3));
}
inline std::string graph(const char* name, const std::string& body) {
  return field(5, field(1, name) + field(6, body) + field(20, 5));
}

inline std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& rest = "") {
  std::string bytes;
  for (const std::string& input : inputs) bytes += field(1, input);
  for (const std::string& output : outputs) bytes += field(2, output);
  return field(1, bytes + field(3, name) + field(4, op) + rest);
}

enum Element { f32 = 1, u8 = 2, i8 = 3, i32 = 6, i64 = 7, boolean = 9, u4 = 21 };

/// An input (11) or output (12) of a graph; a size below 0 is free.
inline std::string value(int number, const std::string& name, const std::vector<int64_t>& dims, Element type = f32) {
  std::string shape;
  for (int64_t size : dims)
    shape += field(1, size < 0 ? field(2, "n" + std::to_string(-size)) : field(1, static_cast<uint64_t>(size)));
  return field(number, field(1, name) + field(2, field(1, field(1, type) + field(2, shape))));
}
inline std::string input(const std::string& name, const std::vector<int64_t>& dims, Element type = f32) {
  return value(11, name, dims, type);
}
inline std::string output(const std::string& name) { return field(12, field(1, name)); }

/// An initializer with raw_data; `rest` are more fields of TensorProto.
inline std::string tensor(const std::string& name, Element type, const std::vector<int64_t>& dims,
                          const std::string& bytes, const std::string& rest = "") {
  std::string proto;
  for (int64_t size : dims) proto += field(1, static_cast<uint64_t>(size));
  return field(5, proto + field(2, type) + field(8, name) + field(9, bytes) + rest);
}
inline std::string zeros(const std::string& name, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  return tensor(name, f32, dims, std::string(static_cast<size_t>(count) * 4, '\0'));
}
inline std::string numbers(const std::string& name, const std::vector<int64_t>& values) {
  return tensor(name, i64, {static_cast<int64_t>(values.size())}, raw(values));
}
inline std::string scalar(const std::string& name, int64_t value) {
  return tensor(name, i64, {}, raw<int64_t>({value}));
}

inline std::string model(const std::string& graph, const std::string& rest = "", uint64_t opset = 17) {
  return field(1, 8) + field(8, field(2, opset)) + field(7, graph) + rest;
}

}  // namespace tenon::test
