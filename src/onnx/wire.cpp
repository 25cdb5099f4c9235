// SPDX-License-Identifier: Apache-2.0
#include "onnx/wire.h"

#include <bit>
#include <cstring>

#include "base/counted.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

template <class T>
T little(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

void Reader::fail(const std::string& why, size_t offset, const std::string& hint) const {
  throw Error(Code::invalid_model, "not a well-formed ONNX file",
              {.where = std::string(file_) + ", byte " + std::to_string(offset), .why = why, .hint = hint});
}

uint64_t Reader::varint() {
  uint64_t value = 0;
  for (int count = 0; count < 10; ++count) {
    if (at_ >= bytes_.size()) fail("a number is cut off", position());
    const uint64_t byte = static_cast<uint64_t>(bytes_[at_++]);
    if (count == 9 && byte > 1) fail("a number is longer than 64 bits", position() - 1);
    value |= (byte & 0x7f) << (7 * count);
    if (!(byte & 0x80)) return value;
  }
  fail("a number is longer than 10 bytes", position());
}

bool Reader::next(Field& field) {
  if (at_ == bytes_.size()) return false;
  field.offset = position();
  const uint64_t tag = varint();
  const uint64_t number = tag >> 3;
  if (number == 0 || number > 0x1fffffff)
    fail("field number " + std::to_string(number) + " does not exist", field.offset);
  field.number = static_cast<uint32_t>(number);
  field.bytes = {};
  field.value = 0;
  const auto take = [&](uint64_t length) {
    if (length > bytes_.size() - at_)
      fail("field " + std::to_string(number) + " needs " + counted(length, "byte") + ", " +
               std::to_string(bytes_.size() - at_) + " are left",
           field.offset, depth_ == 0 ? "the end of the file may be missing: copy or download it again" : "");
    field.bytes = bytes_.subspan(at_, length);
    at_ += length;
  };
  switch (tag & 7) {
    case 0: field.wire = Wire::varint; field.value = varint(); break;
    case 1: field.wire = Wire::fixed64; take(8); field.value = little<uint64_t>(field.bytes.data()); break;
    case 2: field.wire = Wire::bytes; take(varint()); break;
    case 5: field.wire = Wire::fixed32; take(4); field.value = little<uint32_t>(field.bytes.data()); break;
    default: fail("wire type " + std::to_string(tag & 7) + " is not used by ONNX", field.offset);
  }
  return true;
}

void Reader::expect(const Field& field, Wire wire) const {
  if (field.wire != wire)
    fail("field " + std::to_string(field.number) + " has wire type " + std::to_string(static_cast<int>(field.wire)) +
             ", expected " + std::to_string(static_cast<int>(wire)),
         field.offset);
}

Reader Reader::message(const Field& field) const {
  expect(field, Wire::bytes);
  if (depth_ + 1 > max_depth) fail("messages are nested deeper than 100 levels", field.offset);
  if (++*messages_ > max_messages)
    throw Error(Code::resource, "the file holds too many parts",
                {.where = std::string(file_) + ", byte " + std::to_string(field.offset),
                 .why = "more than " + counted(max_messages, "node") + ", attributes and tensors"});
  return Reader(field.bytes, *this, depth_ + 1);
}

Bytes Reader::raw(const Field& field) const {
  expect(field, Wire::bytes);
  return field.bytes;
}

std::string_view Reader::text(const Field& field) const {
  expect(field, Wire::bytes);
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

int64_t Reader::integer(const Field& field) const {
  expect(field, Wire::varint);
  return static_cast<int64_t>(field.value);
}

float Reader::real(const Field& field) const {
  expect(field, Wire::fixed32);
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

void Reader::integers(const Field& field, std::vector<int64_t>& to) const {
  if (field.wire != Wire::bytes) {
    to.push_back(integer(field));
    return;
  }
  Reader packed(field.bytes, *this, depth_);
  while (packed.at_ < packed.bytes_.size()) to.push_back(static_cast<int64_t>(packed.varint()));
}

void Reader::reals(const Field& field, std::vector<float>& to) const {
  if (field.wire != Wire::bytes) {
    to.push_back(real(field));
    return;
  }
  if (field.bytes.size() % 4)
    fail("a list of floats has " + counted(field.bytes.size(), "byte") + ", no multiple of 4", field.offset);
  const size_t before = to.size();
  to.resize(before + field.bytes.size() / 4);
  if (!field.bytes.empty()) std::memcpy(to.data() + before, field.bytes.data(), field.bytes.size());
}

void Reader::doubles(const Field& field, std::vector<double>& to) const {
  if (field.wire != Wire::bytes) {
    expect(field, Wire::fixed64);
    to.push_back(std::bit_cast<double>(field.value));
    return;
  }
  if (field.bytes.size() % 8)
    fail("a list of doubles has " + counted(field.bytes.size(), "byte") + ", no multiple of 8", field.offset);
  const size_t before = to.size();
  to.resize(before + field.bytes.size() / 8);
  if (!field.bytes.empty()) std::memcpy(to.data() + before, field.bytes.data(), field.bytes.size());
}

}  // namespace tenon::onnx
