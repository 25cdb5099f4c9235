// SPDX-License-Identifier: Apache-2.0
#include "quant/data_loader.h"

#include <tenon/error.h>

#include <algorithm>
#include <cstring>

namespace tenon::quant {

namespace {
Dims dims_of(const ir::Graph& graph, size_t input) {
  Dims dims;
  for (const ir::Dim& dim : *graph.value(graph.inputs[input]).shape) dims.push_back(dim.value());
  return dims;
}

/// Row `at` of the first axis, as a tensor of batch 1 that refers to the whole.
Tensor slice(const Tensor& whole, int64_t at) {
  Dims dims = whole.dims();
  const size_t bytes = whole.bytes() / static_cast<size_t>(dims[0]);
  dims[0] = 1;
  auto keep = std::make_shared<Tensor>(whole);
  return Tensor::view(whole.dtype(), dims, keep->data<std::byte>() + bytes * static_cast<size_t>(at), keep);
}
}  // namespace

std::string DataLoader::Batch::label() const {
  std::string text;
  for (size_t at = 0; at < names.size() && at < 3; ++at) text += (at ? ", " : "") + names[at];
  return names.size() > 3 ? text + ", …" : text;
}

std::string DataLoader::Batch::label_at(const Tensor& input, int64_t at) const {
  const int64_t rows = input.dims().rank() ? input.dims()[0] : 1;
  if (rows < static_cast<int64_t>(names.size())) return label();
  const auto row = static_cast<size_t>(at / (input.elements() / rows));
  return names[std::min(row, names.size() - 1)];
}

DataLoader::DataLoader(const ir::Graph& graph, Calibrator& data, int64_t most)
    : graph_(graph), data_(data), most_(most) {
  for (size_t at = 0; at < graph.inputs.size(); ++at) {
    const Dims dims = dims_of(graph, at);
    if (at == 0 && dims.rank() > 0) batch_ = dims[0], regroups_ = batch_ > 0;
    regroups_ = regroups_ && dims.rank() > 0 && dims[0] == batch_;
  }
}

int64_t DataLoader::expected() const {
  const int64_t all = data_.samples();
  return most_ > 0 && (all == 0 || all > most_) ? most_ : all;
}

void DataLoader::check(const Tensor& tensor, size_t input, bool whole) const {
  const ir::Value& value = graph_.value(graph_.inputs[input]);
  const Dims dims = dims_of(graph_, input);
  bool fits = tensor.dims().rank() == dims.rank();
  for (size_t axis = whole ? 0 : 1; fits && axis < dims.rank(); ++axis) fits = tensor.dims()[axis] == dims[axis];
  if (tensor.dtype() != value.dtype)
    throw Error(Code::usage, "the calibration data is of another type than the model's input",
                {.where = "input \"" + value.name + "\"",
                 .why = "it is " + std::string(name(tensor.dtype())) + ", the model takes " +
                        std::string(name(value.dtype))});
  if (!fits)
    throw Error(Code::usage, "the calibration data does not fit the model's input",
                {.where = "input \"" + value.name + "\"",
                 .why = "it is " + tensor.dims().str() + ", the model takes " + dims.str() +
                        (whole ? "" : ", the first being the batch")});
}

std::vector<Tensor> DataLoader::ordered(CalibrationBatch& batch) const {
  std::vector<Tensor> inputs;
  std::string known;
  for (const ir::ValueId id : graph_.inputs) {
    const std::string& name = graph_.value(id).name;
    known += (known.empty() ? "" : ", ") + name;
    auto found = batch.inputs.find(name);
    if (found == batch.inputs.end() && graph_.inputs.size() == 1 && batch.inputs.size() == 1) {
      if (!batch.inputs.begin()->first.empty())
        throw Error(Code::usage, "the model has no input \"" + batch.inputs.begin()->first + "\"",
                    {.where = "calibration data", .hint = "its input is " + known});
      found = batch.inputs.begin();
    }
    if (found == batch.inputs.end())
      throw Error(Code::usage, "the calibration data has nothing for input \"" + name + "\"");
    inputs.push_back(found->second);
  }
  return inputs;
}

bool DataLoader::refill() {
  CalibrationBatch batch;
  if (!data_.next_batch(batch)) return false;
  std::vector<Tensor> inputs = ordered(batch);
  const auto name_of = [&](int64_t at) {
    return at < static_cast<int64_t>(batch.names.size()) ? batch.names[at]
                                                          : "sample " + std::to_string(samples_ + at + 1);
  };
  for (size_t at = 0; at < inputs.size(); ++at) check(inputs[at], at, !regroups_);
  if (!regroups_) {
    waiting_.push_back({std::move(inputs), name_of(0)});
    return true;
  }
  const int64_t count = inputs[0].dims()[0];
  for (size_t at = 1; at < inputs.size(); ++at)
    if (inputs[at].dims()[0] != count)
      throw Error(Code::usage, "the inputs of a calibration batch hold different numbers of samples",
                  {.where = name_of(0)});
  for (int64_t row = 0; row < count; ++row) {
    Sample sample{{}, name_of(row)};
    for (const Tensor& input : inputs) sample.inputs.push_back(slice(input, row));
    waiting_.push_back(std::move(sample));
  }
  return true;
}

std::optional<DataLoader::Batch> DataLoader::next() {
  std::vector<Sample> taken;
  const int64_t wanted = regroups_ ? batch_ : 1;
  while (static_cast<int64_t>(taken.size()) < wanted && (most_ == 0 || samples_ < most_)) {
    while (waiting_.empty())
      if (!refill()) break;
    if (waiting_.empty()) break;
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    ++samples_;
  }
  if (taken.empty()) return std::nullopt;
  Batch batch;
  for (const Sample& sample : taken) batch.names.push_back(sample.name);
  if (wanted == 1) {
    batch.inputs = std::move(taken[0].inputs);
    return batch;
  }
  for (size_t at = 0; at < graph_.inputs.size(); ++at) {
    Tensor whole(taken[0].inputs[at].dtype(), dims_of(graph_, at));
    const size_t bytes = whole.bytes() / static_cast<size_t>(wanted);
    for (int64_t row = 0; row < wanted; ++row) {
      const Sample& sample = taken[static_cast<size_t>(row) % taken.size()];
      std::memcpy(whole.data<std::byte>() + bytes * static_cast<size_t>(row), sample.inputs[at].data(), bytes);
    }
    batch.inputs.push_back(std::move(whole));
  }
  return batch;
}

}  // namespace tenon::quant
