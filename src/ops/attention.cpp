// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::attention {
namespace {

constexpr size_t mask_at = 3, past_key_at = 4, past_value_at = 5, lengths_at = 6;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Queries, keys or values by sizes: [batch, heads, length, size] or [batch, length, heads * size].
struct Heads {
  int64_t batch, heads, length, size;
  bool joined;
  int64_t at(int64_t b, int64_t h, int64_t i) const {
    return (joined ? (b * length + i) * heads + h : (b * heads + h) * length + i) * size;
  }
};

Heads heads_of(const Evaluation& ctx, size_t input, const char* count) {
  const Dims& dims = ctx.input(input).dims();
  if (dims.rank() == 4) return {dims[0], dims[1], dims[2], dims[3], false};
  const int64_t heads = ctx.node().integer(count, 0);
  if (dims.rank() != 3 || heads < 1 || dims[2] % heads)
    ctx.fail("input " + std::to_string(input) + " of sizes " + dims.str() + " has no heads",
             std::string("it has 4 axes, or 3 where ") + count + " divides the last");
  return {dims[0], heads, dims[1], dims[2] / heads, true};
}

void infer(Inference& ctx) {
  const ir::Shape *q = ctx.shape(0), *k = ctx.shape(1), *v = ctx.shape(2), *past = ctx.shape(past_key_at);
  const int64_t q_heads = ctx.node().integer("q_num_heads", 0), kv_heads = ctx.node().integer("kv_num_heads", 0);
  std::optional<ir::Shape> y, keys, values, scores;
  if (q && k && v) {
    const size_t rank = q->size();
    const bool joined = rank == 3;
    if ((rank != 3 && rank != 4) || k->size() != rank || v->size() != rank)
      ctx.fail("queries, keys and values are " + ir::str(*q) + ", " + ir::str(*k) + " and " + ir::str(*v));
    if (past && past->size() != 4) ctx.fail("the past of the keys is " + ir::str(*past), "it has 4 axes");
    if (joined && (q_heads < 1 || kv_heads < 1)) ctx.fail("heads are not counted", "give q_num_heads and kv_num_heads");
    const ir::Dim heads = joined ? ir::Dim(q_heads) : (*q)[1], own = joined ? ir::Dim(kv_heads) : (*k)[1];
    const ir::Dim key_size = joined ? k->back().floor_div(kv_heads) : k->back();
    const ir::Dim value_size = joined ? v->back().floor_div(kv_heads) : v->back();
    const ir::Dim length = (*k)[rank - 2], all = past ? length + (*past)[2] : length;
    y = joined ? ir::Shape{(*q)[0], (*q)[1], heads * value_size} : ir::Shape{(*q)[0], heads, (*q)[2], value_size};
    const bool known = !ctx.has(past_key_at) || past;
    if (known) keys = {(*k)[0], own, all, key_size}, values = {(*v)[0], own, all, value_size};
    if (known) scores = {(*q)[0], heads, (*q)[rank - 2], all};
  }
  ctx.set(0, ctx.dtype(0), std::move(y));
  if (ctx.outputs() > 1) ctx.set(1, ctx.dtype(1), std::move(keys));
  if (ctx.outputs() > 2) ctx.set(2, ctx.dtype(2), std::move(values));
  if (ctx.outputs() > 3) ctx.set(3, ctx.dtype(0), std::move(scores));
}

/// What came before and what is new, as [batch, heads, length, size].
struct Cache {
  Heads heads;
  std::vector<double> numbers;
};

Cache cache_of(Evaluation& ctx, size_t input, size_t past_at) {
  const Heads fresh = heads_of(ctx, input, "kv_num_heads");
  if (ctx.has(past_at) && ctx.input(past_at).dims().rank() != 4)
    ctx.fail("the past of input " + std::to_string(input) + " is " + ctx.input(past_at).dims().str(), "it has 4 axes");
  const int64_t before = ctx.has(past_at) ? ctx.input(past_at).dims()[2] : 0;
  if (ctx.has(past_at) && !(ctx.input(past_at).dims() == Dims{fresh.batch, fresh.heads, before, fresh.size}))
    ctx.fail("the past of input " + std::to_string(input) + " is " + ctx.input(past_at).dims().str());
  Cache cache{{fresh.batch, fresh.heads, before + fresh.length, fresh.size, false}, {}};
  cache.numbers.resize(static_cast<size_t>(fresh.batch * fresh.heads * cache.heads.length * fresh.size));
  const std::vector<double> past = before ? reals(ctx, ctx.input(past_at)) : std::vector<double>();
  const std::vector<double> given = reals(ctx, ctx.input(input));
  for (int64_t b = 0; b < fresh.batch; ++b)
    for (int64_t h = 0; h < fresh.heads; ++h)
      for (int64_t i = 0; i < cache.heads.length; ++i) {
        const int64_t old = ((b * fresh.heads + h) * before + i) * fresh.size;
        const double* from = i < before ? past.data() + old : given.data() + fresh.at(b, h, i - before);
        std::copy_n(from, fresh.size, cache.numbers.begin() + cache.heads.at(b, h, i));
      }
  return cache;
}

void give(Evaluation& ctx, size_t output, DType type, const Dims& dims, const std::vector<double>& numbers) {
  dispatch<Floats>(ctx, type, [&]<class T>(Type<T>) {
    T* const to = ctx.output(output, type, dims).template data<T>();
    for (size_t at = 0; at < numbers.size(); ++at) to[at] = rounded<T>(numbers[at]);
  });
}

/// What is added to scores: 0 or what a mask says where a query may look, minus infinity elsewhere.
class Bias {
 public:
  Bias(Evaluation& ctx, const Heads& q, const Cache& keys)
      : causal_(ctx.node().integer("is_causal", 0) != 0),
        left_(ctx.node().integer("left_window_size", -1)),
        right_(ctx.node().integer("right_window_size", -1)),
        rows_{q.batch, q.heads, q.length},
        offsets_(static_cast<size_t>(q.batch), ctx.has(past_key_at) ? ctx.input(past_key_at).dims()[2] : 0),
        ends_(static_cast<size_t>(q.batch), keys.heads.length) {
    if (ctx.has(lengths_at)) {
      ends_ = ctx.integers(lengths_at);
      if (static_cast<int64_t>(ends_.size()) != q.batch) ctx.fail("there is not one length for each of the batch");
      for (size_t b = 0; b < ends_.size() && !ctx.has(past_key_at); ++b) offsets_[b] = ends_[b] - q.length;
    }
    if (!ctx.has(mask_at)) return;
    const Tensor& mask = ctx.input(mask_at);
    const Dims& dims = mask.dims();
    bool fits = dims.rank() >= 1 && dims.rank() <= 4 && dims.back() <= keys.heads.length;
    for (size_t axis = 0; fits && axis + 1 < dims.rank(); ++axis) {
      const int64_t whole = rows_[axis + 4 - dims.rank()];
      fits = dims[axis] == 1 || dims[axis] == whole;
      steps_[axis + 4 - dims.rank()] = dims[axis] == 1 ? 0 : 1;
    }
    if (!fits) ctx.fail("the mask is " + dims.str() + " for keys of length " + std::to_string(keys.heads.length));
    columns_ = dims.back();
    for (size_t axis = 3, step = 1; axis-- > 0;) {
      const size_t gap = 4 - dims.rank();
      const int64_t size = axis < gap ? 1 : dims[axis - gap];
      steps_[axis] *= static_cast<int64_t>(step);
      step *= static_cast<size_t>(size);
    }
    if (mask.dtype() != DType::boolean) mask_ = reals(ctx, mask);
    else
      for (int64_t at = 0; at < mask.elements(); ++at) mask_.push_back(mask.data<uint8_t>()[at] ? 0 : -infinity);
  }

  double at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t place = i + offsets_[static_cast<size_t>(b)];
    if (j >= ends_[static_cast<size_t>(b)] || (causal_ && j > place)) return -infinity;
    if ((left_ >= 0 && place - j > left_) || (right_ >= 0 && j - place > right_)) return -infinity;
    if (columns_ < 0) return 0;
    if (j >= columns_) return -infinity;
    return mask_[static_cast<size_t>((b * steps_[0] + h * steps_[1] + i * steps_[2]) * columns_ + j)];
  }

 private:
  bool causal_;
  int64_t left_, right_, rows_[3];
  std::vector<int64_t> offsets_, ends_;  // by entry of the batch: of places in the sequence, of keys that are there
  std::vector<double> mask_;
  int64_t steps_[3] = {}, columns_ = -1;  // rows of the mask to the next of the batch, head and query
};

/// Weights of a row of scores; all 0 where the query may look nowhere.
void normalise(std::vector<double>& row, bool any) {
  double top = -infinity, sum = 0;
  for (const double x : row) top = std::max(top, x);
  if (!any || top == -infinity) return std::fill(row.begin(), row.end(), 0.0);
  for (double& x : row) sum += x = std::exp(x - top);
  for (double& x : row) x /= sum;
}

void evaluate(Evaluation& ctx) {
  const Heads q = heads_of(ctx, 0, "q_num_heads");
  const Cache keys = cache_of(ctx, 1, past_key_at), values = cache_of(ctx, 2, past_value_at);
  const int64_t length = keys.heads.length, share = keys.heads.heads ? q.heads / keys.heads.heads : 0;
  if (share < 1 || q.heads % keys.heads.heads || q.size != keys.heads.size || values.heads.length != length ||
      values.heads.heads != keys.heads.heads || q.batch != keys.heads.batch || q.batch != values.heads.batch)
    ctx.fail("queries, keys and values do not fit each other");
  const ir::Node& node = ctx.node();
  const double scale = node.has("scale") ? node.real("scale", 1) : 1 / std::sqrt(static_cast<double>(q.size));
  const double cap = node.real("softcap", 0);
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const std::vector<double> queries = reals(ctx, ctx.input(0));
  const Bias bias(ctx, q, keys);
  Heads to = q;
  to.size = values.heads.size;
  std::vector<double> results(static_cast<size_t>(q.batch * q.heads * q.length * to.size)), shown;
  std::vector<double> row(static_cast<size_t>(length));
  const auto show = [&](int64_t which) {
    if (ctx.wants(3) && mode == which) shown.insert(shown.end(), row.begin(), row.end());
  };
  for (int64_t b = 0; b < q.batch; ++b)
    for (int64_t h = 0; h < q.heads; ++h)
      for (int64_t i = 0; i < q.length; ++i) {
        const double* query = queries.data() + q.at(b, h, i);
        for (int64_t j = 0; j < length; ++j) {
          const double* key = keys.numbers.data() + keys.heads.at(b, h / share, j);
          double sum = 0;
          for (int64_t d = 0; d < q.size; ++d) sum += query[d] * key[d];
          row[static_cast<size_t>(j)] = sum * scale;
        }
        show(0);
        for (double& x : row) x = cap > 0 ? cap * std::tanh(x / cap) : x;
        show(1);
        bool any = false;
        for (int64_t j = 0; j < length; ++j) {
          const double more = bias.at(b, h, i, j);
          any |= more != -infinity;
          row[static_cast<size_t>(j)] += more;
        }
        show(2);
        normalise(row, any);
        show(3);
        double* result = results.data() + to.at(b, h, i);
        for (int64_t j = 0; j < length; ++j) {
          const double* value = values.numbers.data() + values.heads.at(b, h / share, j);
          for (int64_t d = 0; d < to.size; ++d) result[d] += row[static_cast<size_t>(j)] * value[d];
        }
      }
  const DType type = ctx.input(0).dtype();
  give(ctx, 0, type, q.joined ? Dims{q.batch, q.length, q.heads * to.size} : Dims{q.batch, q.heads, q.length, to.size},
       results);
  const auto sizes = [](const Heads& all) { return Dims{all.batch, all.heads, all.length, all.size}; };
  if (ctx.wants(1)) give(ctx, 1, ctx.input(1).dtype(), sizes(keys.heads), keys.numbers);
  if (ctx.wants(2)) give(ctx, 2, ctx.input(2).dtype(), sizes(values.heads), values.numbers);
  if (ctx.wants(3)) give(ctx, 3, type, {q.batch, q.heads, q.length, length}, shown);
}

TENON_OP("Attention", 3, 7, 1, 4, infer, evaluate,
         {attr::flag("is_causal"), attr::integer("kv_num_heads").at_least(0),
          attr::integer("left_window_size").at_least(-1).from(25), attr::integer("q_num_heads").at_least(0),
          attr::integer("qk_matmul_output_mode").between(0, 3),
          attr::integer("right_window_size").at_least(-1).from(25), attr::real("scale"), attr::real("softcap"),
          attr::element_type("softmax_precision")},
         Trait::all_data);

}  // namespace
}  // namespace tenon::ops::attention
