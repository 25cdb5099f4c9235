// SPDX-License-Identifier: Apache-2.0
#include "cli/row_batches.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "base/entries.h"
#include "base/printable.h"

namespace tenon::cli {

RowBatches::RowBatches(const std::map<std::string, Tensor>& inputs, int64_t batch) : inputs_(inputs), batch_(batch) {
  const std::string where = fmt::format("--batch-size {}", batch);
  for (const auto& [name, input] : inputs) {
    const bool plain = input.dtype() != DType::sequence && input.dtype() != DType::string;
    if (!plain || input.dims().rank() == 0 || input.dims()[0] == 0)
      throw Error(Code::usage, "input \"" + printable(name) + "\" has no rows to divide", {.where = where});
    const int64_t rows = input.dims()[0];
    if (rows_ >= 0 && rows != rows_)
      throw Error(Code::usage, fmt::format("inputs of {} and {} cannot be divided alike", rows_, counted(rows, "row")),
                  {.where = where, .hint = "leave it out: the model then runs once on all"});
    rows_ = rows;
  }
}

Shapes RowBatches::shapes() const {
  Shapes shapes;
  for (const auto& [name, input] : inputs_) {
    shapes[name] = {input.dims().begin(), input.dims().end()};
    shapes[name][0] = batch_;
  }
  return shapes;
}

Tensor RowBatches::piece(const Tensor& input, int64_t first) const {
  Dims dims = input.dims();
  dims[0] = batch_;
  Tensor piece(input.dtype(), dims);
  const size_t row = input.bytes() / static_cast<size_t>(rows_);
  for (int64_t at = 0; at < batch_; ++at) {
    const int64_t from = first + at < rows_ ? first + at : first;
    std::memcpy(piece.data<std::byte>() + static_cast<size_t>(at) * row,
                input.data<std::byte>() + static_cast<size_t>(from) * row, row);
  }
  return piece;
}

std::vector<Tensor> RowBatches::run(Session& session, const std::vector<TensorInfo>& outputs) const {
  std::vector<Tensor> joined(outputs.size());
  for (int64_t first = 0; first < rows_; first += batch_) {
    std::map<std::string, Tensor> inputs;
    for (const auto& [name, input] : inputs_) inputs[name] = piece(input, first);
    const std::vector<Tensor> found = session.run(inputs);
    for (size_t at = 0; at < found.size(); ++at) {
      const Tensor& part = found[at];
      const bool plain = part.dtype() != DType::sequence && part.dtype() != DType::string;
      Dims dims = part.dims();
      if (plain && dims.rank() > 0 && dims[0] == batch_) dims[0] = rows_;
      else
        throw Error(
            Code::unsupported,
            "output \"" + printable(outputs[at].name) + "\" cannot be joined: it has no row for each of the inputs'",
            {.where = fmt::format("--batch-size {}", batch_)});
      if (first == 0) joined[at] = Tensor(part.dtype(), dims);
      if (!(joined[at].dims() == dims))
        throw Error(Code::unsupported, "output \"" + printable(outputs[at].name) + "\" has other sizes in each batch",
                    {.where = fmt::format("--batch-size {}", batch_)});
      const size_t row = part.bytes() / static_cast<size_t>(batch_);
      std::memcpy(joined[at].data<std::byte>() + static_cast<size_t>(first) * row, part.data<std::byte>(),
                  static_cast<size_t>(std::min(batch_, rows_ - first)) * row);
    }
  }
  return joined;
}

}  // namespace tenon::cli
