// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ops/broadcast.h"
#include "ops/window.h"

namespace tenon::ops::strings {
namespace {

const std::vector<std::string>& words(Evaluation& ctx, size_t input) {
  if (ctx.input(input).dtype() != DType::string) ctx.fail("input " + std::to_string(input) + " holds no strings");
  return ctx.input(input).strings();
}

void infer_concat(Inference& ctx) {
  const ir::Shape *a = ctx.shape(0), *b = ctx.shape(1);
  ctx.set(0, DType::string, a && b ? std::optional(broadcast(ctx, *a, *b)) : std::nullopt);
}

void evaluate_concat(Evaluation& ctx) {
  const auto &a = words(ctx, 0), &b = words(ctx, 1);
  const Dims &a_dims = ctx.input(0).dims(), &b_dims = ctx.input(1).dims();
  Tensor joined(DType::string, broadcast(ctx, a_dims, b_dims));
  map_binary(a.data(), a_dims, b.data(), b_dims, joined.strings().data(), joined.dims(),
             [](const std::string& left, const std::string& right) { return left + right; });
  ctx.set(0, std::move(joined));
}

void infer_split(Inference& ctx) {
  std::optional<ir::Shape> lengths, parts;
  if (const ir::Shape* x = ctx.shape(0)) {
    lengths = parts = *x;
    parts->push_back(ctx.unknown());
  }
  ctx.set(0, DType::string, parts);
  ctx.set(1, DType::i64, lengths);
}

/// Splits at each delimiter, or at runs of blanks where it is empty, `limit` times at most.
std::vector<std::string> split(const std::string& text, const std::string& delimiter, int64_t limit) {
  std::vector<std::string> parts;
  const char* blanks = " \t\n\r\f\v";
  size_t at = 0;
  if (delimiter.empty()) {
    while ((at = text.find_first_not_of(blanks, at)) != std::string::npos) {
      const size_t end =
          static_cast<int64_t>(parts.size()) < limit ? text.find_first_of(blanks, at) : std::string::npos;
      parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
      if (end == std::string::npos) break;
      at = end;
    }
    return parts;
  }
  if (text.empty()) return parts;
  while (static_cast<int64_t>(parts.size()) < limit) {
    const size_t end = text.find(delimiter, at);
    if (end == std::string::npos) break;
    parts.push_back(text.substr(at, end - at));
    at = end + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

void evaluate_split(Evaluation& ctx) {
  const std::string delimiter = ctx.node().text("delimiter", "");
  const int64_t limit = ctx.node().integer("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> all;
  size_t most = 0;
  for (const std::string& text : words(ctx, 0)) {
    all.push_back(split(text, delimiter, limit));
    most = std::max(most, all.back().size());
  }
  Dims dims = ctx.input(0).dims();
  Tensor& lengths = ctx.output(1, DType::i64, dims);
  dims.push_back(static_cast<int64_t>(most));
  std::vector<std::string> parts;
  for (size_t i = 0; i < all.size(); ++i) {
    lengths.data<int64_t>()[i] = static_cast<int64_t>(all[i].size());
    all[i].resize(most);
    parts.insert(parts.end(), all[i].begin(), all[i].end());
  }
  ctx.set(0, Tensor::of_strings(dims, std::move(parts)));
}

void infer_normalize(Inference& ctx) {
  std::optional<ir::Shape> output;
  if (const ir::Shape* x = ctx.shape(0)) {
    if (x->empty() || x->size() > 2) ctx.fail("the input must be of rank 1 or 2");
    output = *x;
    if (ctx.node().has("stopwords")) output->back() = ctx.unknown();
  }
  ctx.set(0, DType::string, output);
}

/// Changes the case of ASCII letters only, as the C locale does.
std::string cased(std::string text, const std::string& action) {
  for (char& c : text) {
    if (action == "LOWER" && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (action == "UPPER" && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

/// Drops stop words and changes case; an empty result is one empty string.
void evaluate_normalize(Evaluation& ctx) {
  const ir::Node& node = ctx.node();
  const std::string action = node.text("case_change_action", "NONE");
  const bool sensitive = node.integer("is_case_sensitive", 0) != 0;
  if (action != "NONE" && action != "LOWER" && action != "UPPER") ctx.fail("case_change_action is \"" + action + "\"");
  std::set<std::string> stop;
  if (node.has("stopwords"))
    if (const auto* list = std::get_if<std::vector<std::string>>(&node.attributes.at("stopwords")))
      for (const std::string& word : *list) stop.insert(sensitive ? word : cased(word, "LOWER"));
  Dims dims = ctx.input(0).dims();
  if (dims.rank() == 0 || dims.rank() > 2 || (dims.rank() == 2 && dims[0] != 1))
    ctx.fail("the input must be of shape C or 1 x C");
  std::vector<std::string> kept;
  for (const std::string& word : words(ctx, 0))
    if (!stop.count(sensitive ? word : cased(word, "LOWER"))) kept.push_back(cased(word, action));
  if (kept.empty()) kept.emplace_back();
  dims[dims.rank() - 1] = static_cast<int64_t>(kept.size());
  ctx.set(0, Tensor::of_strings(dims, std::move(kept)));
}

TENON_OP("StringConcat", 2, 2, 1, 1, infer_concat, evaluate_concat);
TENON_OP("StringSplit", 1, 1, 2, 2, infer_split, evaluate_split, {attr::text("delimiter"), attr::integer("maxsplit")});
TENON_OP("StringNormalizer", 1, 1, 1, 1, infer_normalize, evaluate_normalize,
         {attr::text("case_change_action").one_of({"LOWER", "UPPER", "NONE"}), attr::flag("is_case_sensitive"),
          attr::text("locale"), attr::texts("stopwords")});

}  // namespace
}  // namespace tenon::ops::strings
