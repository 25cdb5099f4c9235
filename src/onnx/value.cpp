// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"
#include "onnx/tensor.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

// SequenceProto and OptionalProto number their fields alike: 2 the kind, 3 tensors, 5 sequences, 7 optionals.
struct Holder {
  std::vector<Tensor> tensors;
  std::vector<std::vector<Tensor>> sequences;
};

Holder read_holder(Reader reader, const Source& source) {
  Holder holder;
  for (Field field; reader.next(field);) {
    if (field.number == 3) {
      holder.tensors.push_back(decode(parse_tensor(reader.message(field)), source));
    } else if (field.number == 5) {
      holder.sequences.push_back(read_holder(reader.message(field), source).tensors);
    } else if (field.number == 7) {
      Holder inner = read_holder(reader.message(field), source);
      for (Tensor& tensor : inner.tensors) holder.tensors.push_back(std::move(tensor));
      for (auto& sequence : inner.sequences) holder.sequences.push_back(std::move(sequence));
    } else if (field.number == 4 || field.number == 6) {
      throw Error(Code::unsupported, "a sequence holds maps or sparse tensors", {.where = source.file});
    }
  }
  return holder;
}

// TensorProto uses field 3 for segments only, which nothing writes; without type and data a message is an empty holder,
// perhaps with a name.
bool is_optional(Reader reader) {
  bool any = false;
  int64_t type = 0;
  for (Field field; reader.next(field);) {
    if (field.number == 3) return true;
    if (field.number == 2) type = reader.integer(field);
    any = any || field.number >= 4;
  }
  return !any && type == 0;
}

}  // namespace

Tensor read_tensor(std::span<const std::byte> bytes, const std::string& name) { return read_value(bytes, name, false); }

Tensor read_value(std::span<const std::byte> bytes, const std::string& name, bool is_sequence) {
  const Source source{name, nullptr, nullptr};
  const Reader reader(bytes, name);
  if (!is_sequence && !is_optional(reader)) return decode(parse_tensor(reader), source);
  Holder holder = read_holder(reader, source);
  if (!is_sequence) return holder.tensors.empty() ? Tensor() : holder.tensors.front();
  if (!holder.sequences.empty()) return Tensor::of_sequence(std::move(holder.sequences.front()));
  return Tensor::of_sequence(std::move(holder.tensors));
}

}  // namespace tenon::onnx
