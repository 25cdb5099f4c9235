// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::tfidf_vectorizer {
namespace {

int64_t columns(const auto& ctx) {
  int64_t largest = -1;
  for (int64_t index : ctx.node().integers("ngram_indexes")) {
    if (index < 0 || index >= int64_t{1} << 31) ctx.fail("ngram_indexes holds " + std::to_string(index));
    largest = std::max(largest, index);
  }
  return largest + 1;
}

void infer(Inference& ctx) {
  auto shape = known_shape(ctx, 0);
  if (shape) {
    if (shape->empty() || shape->size() > 2)
      ctx.fail("the input has rank " + std::to_string(shape->size()) + "; 1 or 2 is needed");
    shape->back() = columns(ctx);
  }
  ctx.set(0, DType::f32, std::move(shape));
}

/// Counts n-grams of a pool in each row; grams are as long as their place between ngram_counts says, with up to
/// max_skip_count skipped words.
template <class Word>
void count_grams(Evaluation& ctx, const std::vector<Word>& pool, const std::vector<Word>& words, int64_t rows,
                 int64_t width, int64_t size) {
  const ir::Node& node = ctx.node();
  const std::vector<int64_t> starts = node.integers("ngram_counts"), indices = node.integers("ngram_indexes");
  const int64_t shortest = node.integer("min_gram_length", 1), longest = node.integer("max_gram_length", 1),
                skips = node.integer("max_skip_count", 0);
  const std::string mode = node.text("mode", "TF");
  const std::vector<float> weights = node.reals("weights");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") ctx.fail("mode is \"" + mode + "\"");
  if (shortest < 1 || longest < shortest || skips < 0) ctx.fail("the gram lengths are out of range");
  if (!weights.empty() && weights.size() != indices.size())
    ctx.fail("there are " + counted(weights.size(), "weight") + " for " + std::to_string(indices.size()) + " grams");
  std::map<std::vector<Word>, size_t> grams;
  for (size_t length = 1, gram = 0; length <= starts.size(); ++length) {
    const int64_t begin = starts[length - 1],
                  end = length < starts.size() ? starts[length] : static_cast<int64_t>(pool.size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) ||
        (end - begin) % static_cast<int64_t>(length))
      ctx.fail("ngram_counts does not fit the pool");
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(length), ++gram) {
      if (gram >= indices.size()) ctx.fail("ngram_indexes is too short");
      if (static_cast<int64_t>(length) >= shortest && static_cast<int64_t>(length) <= longest)
        grams.emplace(std::vector<Word>(pool.begin() + at, pool.begin() + at + static_cast<int64_t>(length)), gram);
    }
  }
  Dims dims = ctx.input(0).dims();
  dims[dims.rank() - 1] = size;
  float* to = ctx.output(0, DType::f32, dims).data<float>();
  std::fill_n(to, dims.elements(), 0.f);
  std::vector<Word> gram;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t length = shortest; length <= longest && length <= width; ++length)
      for (int64_t skip = 1; skip <= (length == 1 ? 1 : skips + 1) && skip <= width; ++skip)
        for (int64_t at = 0; at + (length - 1) * skip < width; ++at) {
          gram.clear();
          for (int64_t k = 0; k < length; ++k) gram.push_back(words[row * width + at + k * skip]);
          const auto found = grams.find(gram);
          if (found == grams.end()) continue;
          float& sum = to[row * size + indices[found->second]];
          const float weight = weights.empty() ? 1 : weights[found->second];
          if (mode == "TF") sum += 1;
          else if (mode == "IDF") sum = weight;
          else sum += weight;
        }
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.dims().rank() < 1 || x.dims().rank() > 2)
    ctx.fail("the input has rank " + std::to_string(x.dims().rank()) + "; 1 or 2 is needed");
  const int64_t width = x.dims().back(), rows = x.dims().rank() == 1 ? 1 : x.dims()[0], size = columns(ctx);
  if (x.dtype() != DType::string)
    return count_grams<int64_t>(ctx, ctx.node().integers("pool_int64s"), ctx.integers(0), rows, width, size);
  const auto pool = ctx.node().attributes.find("pool_strings");
  if (pool == ctx.node().attributes.end() || !std::holds_alternative<std::vector<std::string>>(pool->second))
    ctx.fail("pool_strings is missing");
  count_grams<std::string>(ctx, std::get<std::vector<std::string>>(pool->second), x.strings(), rows, width, size);
}

TENON_OP("TfIdfVectorizer", 1, 1, 1, 1, infer, evaluate,
         {attr::integer("max_gram_length").at_least(1).required(),
          attr::integer("max_skip_count").at_least(0).required(),
          attr::integer("min_gram_length").at_least(1).required(),
          attr::text("mode").one_of({"TF", "IDF", "TFIDF"}).required(),
          attr::integers("ngram_counts").at_least(0).required(), attr::integers("ngram_indexes").at_least(0).required(),
          attr::integers("pool_int64s"), attr::texts("pool_strings"), attr::reals("weights")});

}  // namespace
}  // namespace tenon::ops::tfidf_vectorizer
