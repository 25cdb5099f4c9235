// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "api/handles.h"

namespace tenon::api {
namespace {

constexpr const char* source = "judge";

/// A metric that functions of C compute.
class CJudge : public Judge {
 public:
  explicit CJudge(const tenon_judge& form) : form_(form), metric_(form.metric ? form.metric : "score") {}
  double reference(const Engine& engine) override {
    const tenon_engine handle = handle_of(engine);
    double value = 0;
    check(form_.reference(form_.context, &handle, &value), value);
    return value;
  }
  Score score(const Engine& engine) override {
    const tenon_engine handle = handle_of(engine);
    tenon_score form;
    tenon_score_init(&form);
    const int32_t told = form_.score(form_.context, &handle, &form);
    for (const double one : {form.value, form.drop, form.low, form.high, form.distance}) check(told, one);
    return {form.value, form.drop, form.low, form.high, form.objection ? form.objection : "", form.distance};
  }
  double usual_drop() const override { return form_.max_drop; }
  std::string metric() const override { return metric_; }
  int64_t samples() const override { return form_.samples; }

 private:
  static void check(int32_t told, double value) {
    if (told != 0) throw Error(Code::usage, "the build was cancelled", {.where = source});
    if (!std::isfinite(value)) throw Error(Code::usage, "a score is no finite number", {.where = source});
  }
  tenon_judge form_;
  std::string metric_;
};

}  // namespace

void judge_by(const tenon_judge* given, BuildOptions& options) {
  if (!given) return;
  const tenon_judge form = read(given, tenon_judge_init, source);
  required(form.reference ? &form : nullptr, "reference");
  required(form.score ? &form : nullptr, "score");
  if (!(form.max_drop >= 0))
    throw Error(Code::usage, "max_drop is " + std::to_string(form.max_drop), {.hint = "give points from 0 on"});
  options.judge = std::make_shared<CJudge>(form);
  options.max_drop = form.max_drop;
}

}  // namespace tenon::api
