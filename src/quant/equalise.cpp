// SPDX-License-Identifier: Apache-2.0
#include "quant/equalise.h"

#include <cmath>
#include <optional>

#include "ops/op.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

/// Channels that have to share a factor, as no carrying node tells them apart.
using Classes = std::vector<int>;  // by entry of a value's last axis

int64_t last_size(const ir::Graph& graph, ir::ValueId id) {
  if (id == ir::no_value) return -1;
  const auto& shape = graph.value(id).shape;
  return shape && !shape->empty() && shape->back().is_constant() ? shape->back().value() : -1;
}

bool on_last_axis(const ir::Graph& graph, const ir::Node& node) {
  const auto& shape = graph.value(node.inputs[0]).shape;
  const auto rank = static_cast<int64_t>(shape ? shape->size() : 0);
  const int64_t axis = node.integer("axis", 0);
  return rank > 0 && (axis < 0 ? axis + rank : axis) == rank - 1;
}

/// What a carrying node makes of its inputs' classes, by output; empty where channels cannot be followed.
std::vector<Classes> carried(const ir::Graph& graph, const ir::Node& node, const std::vector<const Classes*>& inputs) {
  const int64_t size = last_size(graph, node.outputs[0]);
  if (ops::has_trait(node.op, ops::Trait::joins)) {
    if (!on_last_axis(graph, node)) return {};
    Classes all;
    for (const Classes* input : inputs) all.insert(all.end(), input->begin(), input->end());
    return {all};
  }
  const Classes& first = *inputs[0];
  if (ops::has_trait(node.op, ops::Trait::splits) && on_last_axis(graph, node)) {
    std::vector<Classes> parts;
    size_t begin = 0;
    for (const ir::ValueId out : node.outputs) {
      const int64_t count = last_size(graph, out);
      if (count < 0 || begin + static_cast<size_t>(count) > first.size()) return {};
      parts.emplace_back(first.begin() + static_cast<int64_t>(begin),
                         first.begin() + static_cast<int64_t>(begin) + count);
      begin += static_cast<size_t>(count);
    }
    return parts;
  }
  // Others that move entries of the last axis change its size.
  const bool mixes = ops::has_trait(node.op, ops::Trait::window) && node.text("layout", "") != "NHWC";
  if (mixes || size != static_cast<int64_t>(first.size())) return {};
  if (ops::has_trait(node.op, ops::Trait::permutes)) {
    const std::vector<int64_t> order = node.integers("perm", {});
    if (order.empty() || order.back() != static_cast<int64_t>(order.size()) - 1) return {};
  }
  return std::vector<Classes>(node.outputs.size(), first);
}

/// A layer that reads a group: what its noise depends on, by class.
struct Reader {
  const ir::Node* node;
  WeightView view;
  Classes classes;              // by input channel
  std::vector<double> squares;  // E[x^2], by input channel
  std::vector<double> norms;    // sum of squared weights, by input channel
  double power = 0;             // of the sums, were the channels independent
};

struct Group {
  bool followed = true;
  std::vector<ir::ValueId> values;
  std::vector<float> low, high;  // by class
  std::vector<Reader> readers;
};

struct Choice {
  std::vector<float> factors;  // by class
  int zero = 0;
  double noise = INFINITY;
};

double activation_noise(const Group& group, const std::vector<float>& factors) {
  double sum = 0;
  for (const Reader& reader : group.readers) {
    double own = 0;
    for (size_t c = 0; c < reader.classes.size(); ++c) {
      const double factor = factors[static_cast<size_t>(reader.classes[c])];
      own += factor * factor * reader.norms[c];
    }
    sum += own / reader.power;
  }
  return sum / 12;
}

double weight_noise(const Group& group, const std::vector<float>& factors) {
  double sum = 0;
  for (const Reader& reader : group.readers) {
    const WeightView& view = reader.view;
    double own = 0;
    for (int64_t row = 0; row < view.rows; ++row) {
      double largest = 0, size = 0;
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto channel = static_cast<size_t>(view.channel(row, i));
        const double factor = factors[static_cast<size_t>(reader.classes[channel])];
        largest = std::max(largest, std::fabs(view.at(row, i)) * factor);
        size += reader.squares[channel] / (factor * factor);
      }
      own += largest / 127 * (largest / 127) * size;
    }
    sum += own / reader.power;
  }
  return sum / 12;
}

/// The factors of one power of the ranges, with the zero point of least noise.
Choice choose(const Group& group, double power, double caution) {
  constexpr float least_share = 1.f / 256;  // of the largest range: for channels that calibration did not see at work
  constexpr int most_zero = 192;
  bool negative = false;
  for (const float low : group.low) negative |= low < 0;
  Choice best;
  for (int zero = negative ? 2 : 0; zero <= (negative ? most_zero : 0); zero += 2) {
    Choice choice;
    choice.zero = zero;
    float largest = 0;
    for (size_t c = 0; c < group.low.size(); ++c) {
      float need = group.high[c] / static_cast<float>(255 - zero);
      if (zero > 0) need = std::max(need, -group.low[c] / static_cast<float>(zero));
      choice.factors.push_back(need);
      largest = std::max(largest, need);
    }
    if (!(largest > 1e-30f)) return {};
    for (float& factor : choice.factors)
      factor = largest * static_cast<float>(std::pow(std::max(factor / largest, least_share), power));
    choice.noise = activation_noise(group, choice.factors);
    if (choice.noise < best.noise) best = std::move(choice);
  }
  best.noise += caution * weight_noise(group, best.factors);
  return best;
}

class Equaliser {
 public:
  Equaliser(const ir::Graph& graph, const Structure& structure, const Observations& seen)
      : graph_(graph), structure_(structure), seen_(seen), groups_(static_cast<size_t>(structure.groups)) {
    classes_.resize(graph.values.size());
    for (const ir::ValueId input : graph.inputs) start(input);
    for (const ir::Node& node : graph.nodes) follow(node);
    for (const ir::Node& node : graph.nodes) read(node);
    for (size_t id = 0; id < graph.values.size(); ++id) note_range(static_cast<ir::ValueId>(id));
  }

  Equalised result(double caution) const {
    constexpr double worth = 0.75;
    Equalised equalised;
    for (size_t at = 0; at < groups_.size(); ++at) {
      const Group& group = groups_[at];
      if (!group.followed || group.readers.empty()) continue;
      const Choice plain = choose(group, 0, caution);
      Choice best;
      for (const double power : {0.25, 0.5, 0.75, 1.0})
        if (Choice choice = choose(group, power, caution); choice.noise < best.noise) best = std::move(choice);
      if (!(best.noise < worth * plain.noise)) continue;
      equalised.quantisers[static_cast<int>(at)] = {1, best.zero};
      for (const ir::ValueId id : group.values) {
        std::vector<float>& factors = equalised.factors[graph_.value(id).name];
        for (const int one : classes_[id]) factors.push_back(best.factors[static_cast<size_t>(one)]);
      }
    }
    return equalised;
  }

 private:
  Group* group_of(ir::ValueId id) {
    if (id == ir::no_value || structure_.group[id] < 0) return nullptr;
    return &groups_[static_cast<size_t>(structure_.group[id])];
  }

  /// A value that nothing within its group makes: each channel is a class.
  void start(ir::ValueId id) {
    Group* const group = group_of(id);
    if (!group) return;
    const int64_t size = last_size(graph_, id);
    if (size < 1) {
      group->followed = false;
      return;
    }
    for (int64_t c = 0; c < size; ++c) {
      classes_[id].push_back(static_cast<int>(group->low.size()));
      group->low.push_back(0), group->high.push_back(0);
    }
    group->values.push_back(id);
  }

  void follow(const ir::Node& node) {
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const ir::ValueId out = node.outputs[slot];
      Group* const group = group_of(out);
      if (!group || !group->followed) continue;
      if (structure_.source[out]) {
        start(out);
        continue;
      }
      std::vector<const Classes*> inputs;
      for (const ir::ValueId in : node.inputs)
        if (in != ir::no_value && group_of(in) == group) inputs.push_back(&classes_[in]);
      const std::vector<Classes> made = inputs.empty() ? std::vector<Classes>() : carried(graph_, node, inputs);
      if (made.size() <= slot) {
        group->followed = false;
        continue;
      }
      classes_[out] = made[slot];
      group->values.push_back(out);
    }
  }

  void read(const ir::Node& node) {
    if (node.inputs.empty() || !structure_.integer[static_cast<size_t>(&node - graph_.nodes.data())]) return;
    const ir::ValueId x = node.inputs[0];
    Group* const group = group_of(x);
    if (!group || !group->followed) return;
    const auto sums = seen_.channels.find(graph_.value(x).name);
    Reader reader{&node, weights_of(graph_, node), classes_[x], {}, {}};
    if (channel_axis(node) != -1 || sums == seen_.channels.end() ||
        sums->second.squares.size() != reader.classes.size() ||
        reader.view.channels() != static_cast<int64_t>(reader.classes.size())) {
      group->followed = false;
      return;
    }
    for (const double squares : sums->second.squares)
      reader.squares.push_back(squares / static_cast<double>(sums->second.positions));
    reader.norms.resize(reader.classes.size());
    for (int64_t row = 0; row < reader.view.rows; ++row)
      for (int64_t i = 0; i < reader.view.inner; ++i) {
        const double weight = reader.view.at(row, i);
        reader.norms[static_cast<size_t>(reader.view.channel(row, i))] += weight * weight;
      }
    for (size_t c = 0; c < reader.norms.size(); ++c) reader.power += reader.norms[c] * reader.squares[c];
    if (reader.power > 0) group->readers.push_back(std::move(reader));
  }

  void note_range(ir::ValueId id) {
    Group* const group = group_of(id);
    const auto sums = group ? seen_.channels.find(graph_.value(id).name) : seen_.channels.end();
    if (sums == seen_.channels.end() || sums->second.low.size() != classes_[id].size()) return;
    for (size_t c = 0; c < classes_[id].size(); ++c) {
      const auto one = static_cast<size_t>(classes_[id][c]);
      group->low[one] = std::min(group->low[one], sums->second.low[c]);
      group->high[one] = std::max(group->high[one], sums->second.high[c]);
    }
  }

  const ir::Graph& graph_;
  const Structure& structure_;
  const Observations& seen_;
  std::vector<Group> groups_;
  std::vector<Classes> classes_;  // by value
};

}  // namespace

Equalised equalise(const ir::Graph& graph, const Structure& structure, const Observations& seen, double caution) {
  return Equaliser(graph, structure, seen).result(caution);
}

}  // namespace tenon::quant
