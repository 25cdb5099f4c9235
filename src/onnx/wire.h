// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::onnx {

using Bytes = std::span<const std::byte>;

/// The four wire types of Protocol Buffers that ONNX uses (https://protobuf.dev/programming-guides/encoding); groups
/// are refused.
enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One field of a message: `value` of a number, `bytes` of a length-delimited one. Refers to the file.
struct Field {
  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t value = 0;
  Bytes bytes;
  size_t offset = 0;  // of the tag, in the file
};

/// Walks the fields of one message without copying. Every length is checked against the message that holds it.
/// Throws Error(invalid_model) naming file and byte; Error(resource) for more than max_messages.
class Reader {
 public:
  static constexpr int max_depth = 100;
  static constexpr int64_t max_messages = 4'000'000;  // in one file; each costs some hundred bytes of memory
  Reader(Bytes bytes, std::string_view file)
      : bytes_(bytes), start_(bytes.data()), file_(file), messages_(std::make_shared<int64_t>(0)) {}
  /// False at the end of the message.
  bool next(Field& field);
  /// A reader of the message in `field`, one level deeper.
  Reader message(const Field& field) const;
  std::string_view text(const Field& field) const;
  int64_t integer(const Field& field) const;
  float real(const Field& field) const;
  /// Appends a repeated number, packed or not.
  void integers(const Field& field, std::vector<int64_t>& to) const;
  void reals(const Field& field, std::vector<float>& to) const;
  void doubles(const Field& field, std::vector<double>& to) const;
  /// The bytes of a length-delimited field.
  Bytes raw(const Field& field) const;
  [[noreturn]] void fail(const std::string& why, size_t offset, const std::string& hint = "") const;

 private:
  Reader(Bytes bytes, const Reader& outer, int depth)
      : bytes_(bytes), start_(outer.start_), file_(outer.file_), messages_(outer.messages_), depth_(depth) {}
  size_t position() const { return static_cast<size_t>(bytes_.data() + at_ - start_); }
  uint64_t varint();
  void expect(const Field& field, Wire wire) const;

  Bytes bytes_;
  const std::byte* start_;
  std::string_view file_;
  std::shared_ptr<int64_t> messages_;  // met so far
  int depth_ = 0;
  size_t at_ = 0;
};

}  // namespace tenon::onnx
