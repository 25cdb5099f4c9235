// SPDX-License-Identifier: Apache-2.0
#include "plan/sizes.h"

#include <algorithm>

namespace tenon::plan {
namespace {

using ir::DimProgram;

/// The value that a folded constant took the place of: folding names it so, or so with a number behind it.
std::string replaced_by(const std::string& name) {
  const size_t dot = name.rfind('.');
  const bool numbered = dot != std::string::npos && dot + 1 < name.size() &&
                        name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? name.substr(0, dot) : name;
}

Tensor integers(DType dtype, const Dims& dims, const std::vector<int>& places, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, dims);
  for (size_t at = 0; at < places.size(); ++at) {
    const int64_t value = values[static_cast<size_t>(places[at])];
    if (dtype == DType::i64) tensor.data<int64_t>()[at] = value;
    else tensor.data<int32_t>()[at] = static_cast<int32_t>(value);
  }
  return tensor;
}

}  // namespace

bool Sizes::add_inputs(const ir::Graph& symbolic) {
  for (const ir::ValueId id : symbolic.inputs) {
    const ir::Value& value = symbolic.value(id);
    if (!value.shape || value.dtype == DType::sequence) return false;
    ranks_[value.name] = value.shape->size();
    for (size_t axis = 0; axis < value.shape->size(); ++axis) {
      const ir::Dim& dim = (*value.shape)[axis];
      const bool is_symbol = !dim.is_constant() && ir::Dim::symbol(dim.str()) == dim;
      given_.push_back({value.name, axis, is_symbol ? program_.symbol(dim.str()) : DimProgram::none, DimProgram::none});
    }
  }
  size_t at = 0;
  for (const ir::ValueId id : symbolic.inputs)
    for (const ir::Dim& dim : *symbolic.value(id).shape) {
      given_[at].value = program_.add(dim);
      if (given_[at++].value == DimProgram::none) return false;
    }
  return true;
}

bool Sizes::add_constant(const ir::Graph& symbolic, const std::map<std::string, ir::ValueId>& names, ir::ValueId id) {
  const ir::Value& value = graph_->value(id);
  if (size_of(value.dtype) == 0) return false;
  fixed_[static_cast<size_t>(id)] = value.constant.dims();
  const auto same = names.find(value.name);
  if (same != names.end() && symbolic.value(same->second).is_constant()) return true;
  const auto from = names.find(replaced_by(value.name));
  if (from == names.end()) return false;
  const ir::Value& source = symbolic.value(from->second);
  if (source.is_constant() || !source.content || source.dtype != value.dtype) return false;
  if (value.dtype != DType::i64 && value.dtype != DType::i32) return false;
  if (static_cast<int64_t>(source.content->size()) != value.constant.elements()) return false;
  Content content{id, value.dtype, value.constant.dims(), {}};
  bool varies = false;
  for (const ir::Dim& dim : *source.content) {
    varies |= !dim.is_constant();
    content.elements.push_back(program_.add(dim));
    if (content.elements.back() == DimProgram::none) return false;
  }
  if (varies) contents_.push_back(std::move(content));
  return true;
}

bool Sizes::add_value(const ir::Graph& symbolic, const std::map<std::string, ir::ValueId>& names, ir::ValueId id) {
  const auto source = names.find(graph_->value(id).name);
  if (source == names.end() || !symbolic.value(source->second).shape) return false;
  for (const ir::Dim& dim : *symbolic.value(source->second).shape) {
    sizes_[static_cast<size_t>(id)].push_back(program_.add(dim));
    if (sizes_[static_cast<size_t>(id)].back() == DimProgram::none) return false;
  }
  return true;
}

std::unique_ptr<const Sizes> Sizes::of(const ir::Graph& symbolic, std::shared_ptr<const ir::Graph> graph,
                                       const Layout& layout) {
  std::unique_ptr<Sizes> made(new Sizes);
  made->graph_ = std::move(graph);
  const ir::Graph& block = *made->graph_;
  made->fixed_.resize(block.values.size()), made->sizes_.resize(block.values.size());
  if (!made->add_inputs(symbolic)) return nullptr;
  std::map<std::string, ir::ValueId> names;
  for (size_t id = 0; id < symbolic.values.size(); ++id)
    names[symbolic.values[id].name] = static_cast<ir::ValueId>(id);
  for (ir::ValueId id = 0; id < static_cast<ir::ValueId>(block.values.size()); ++id)
    if (!(block.value(id).is_constant() ? made->add_constant(symbolic, names, id)
                                        : made->add_value(symbolic, names, id)))
      return nullptr;
  made->agreement_ = std::make_unique<Agreement>(block);
  // It must give what is known at these sizes.
  Shapes shapes;
  for (const ir::ValueId id : block.inputs) {
    const Dims& dims = layout.places[static_cast<size_t>(id)].dims;
    shapes[block.value(id).name] = {dims.begin(), dims.end()};
  }
  std::vector<Dims> sizes;
  Decided decided;
  if (!made->evaluate(shapes, sizes, decided)) return nullptr;
  for (size_t id = 0; id < sizes.size(); ++id)
    if (!(sizes[id] == layout.places[id].dims)) return nullptr;
  for (const auto& [id, tensor] : decided) {
    const Tensor& known = block.value(id).constant;
    if (!std::equal(tensor.data<char>(), tensor.data<char>() + tensor.bytes(), known.data<char>())) return nullptr;
  }
  return made;
}

bool Sizes::evaluate(const Shapes& inputs, std::vector<Dims>& sizes, Decided& decided) const {
  if (inputs.size() != ranks_.size()) return false;
  std::vector<int64_t> symbols(program_.symbols(), -1), values;
  const std::string* name = nullptr;
  const std::vector<int64_t>* list = nullptr;
  const auto size_of = [&](const Given& given) {
    if (name != &given.input && (!name || *name != given.input)) {
      const auto found = inputs.find(given.input);
      list = found == inputs.end() || found->second.size() != ranks_.at(given.input) ? nullptr : &found->second;
      name = &given.input;
    }
    return list ? (*list)[given.axis] : int64_t{-1};
  };
  for (const Given& given : given_)
    if (given.symbol != ir::DimProgram::none) symbols[static_cast<size_t>(given.symbol)] = size_of(given);
  if (!program_.evaluate(symbols, values)) return false;
  name = nullptr;
  for (const Given& given : given_)
    if (size_of(given) < 1 || values[static_cast<size_t>(given.value)] != size_of(given)) return false;
  sizes = fixed_;
  for (size_t id = 0; id < sizes.size(); ++id)
    for (const int place : sizes_[id]) {
      const int64_t size = values[static_cast<size_t>(place)];
      if (size < 1) return false;
      sizes[id].push_back(size);
    }
  for (const Content& content : contents_)
    decided.emplace_back(content.value, integers(content.dtype, content.dims, content.elements, values));
  return agreement_->holds(sizes, decided);
}

}  // namespace tenon::plan
