// SPDX-License-Identifier: Apache-2.0
// What C programs do beyond running an engine (tests/package/c_program): values that live from run to run, calibration
// and judging, kernels timed anew, strings, tensors of DLPack, texts about an engine, memory and limits.
#include <gtest/gtest.h>
#include <tenon/dlpack.h>
#include <tenon/tenon.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

/// The text of what a call told; "" where it did its work.
template <class Call>
std::string told(const Call& call) {
  tenon_error* error = nullptr;
  const tenon_code code = call(&error);
  const std::string text = error ? tenon_error_text(error) : code == TENON_OK ? "" : "no error";
  tenon_error_free(error);
  return text;
}

tenon_tensor of_floats(float* data, std::initializer_list<int64_t> dims) {
  tenon_tensor tensor;
  tenon_tensor_init(&tensor);
  tensor.data = data, tensor.dtype = TENON_F32, tensor.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  return tensor;
}

tenon_build_options quick() {
  tenon_build_options options;
  tenon_build_options_init(&options);
  options.budget_seconds = 0, options.timing_cache = "-", options.threads = 1;
  return options;
}

float output_of(tenon_session* session, size_t at) {
  tenon_tensor tensor;
  tenon_tensor_init(&tensor);
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_session_output(session, at, &tensor, error); }), "");
  return tensor.data ? *static_cast<float*>(tensor.data) : NAN;
}

/// sum = past + x
TEST(CApi, CarriesValuesFromRunToRun) {
  const std::string model = test::model(input("x", {1, 2}) + input("past", {1, 2}) +
                                        node("add", "Add", {"past", "x"}, {"sum"}) + output("sum"));
  const tenon_carried carried{"sum", "past"};
  tenon_build_options options = quick();
  options.state = &carried, options.state_count = 1;
  tenon_engine* engine = nullptr;
  ASSERT_EQ(told([&](tenon_error** error) {
              return tenon_build_memory(model.data(), model.size(), &options, &engine, error);
            }),
            "");
  EXPECT_STREQ(tenon_engine_precision(engine), "fp32");
  tenon_session* session = nullptr;
  tenon_state *state = nullptr, *fork = nullptr;
  ASSERT_EQ(told([&](tenon_error** error) { return tenon_session_new(engine, nullptr, &session, error); }), "");
  ASSERT_EQ(told([&](tenon_error** error) { return tenon_state_new(engine, nullptr, 0, &state, error); }), "");
  float x[] = {1, 2}, past[] = {10, 20};
  const tenon_tensor given = of_floats(x, {1, 2}), start = of_floats(past, {1, 2});
  const tenon_named_tensor inputs{"x", &given};
  const auto run = [&](tenon_state* with) {
    return told([&](tenon_error** error) { return tenon_session_run_state(session, &inputs, 1, with, error); });
  };
  EXPECT_EQ(run(state), "");
  EXPECT_EQ(run(state), "");
  EXPECT_EQ(output_of(session, 0), 2);
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_state_fork(state, &fork, error); }), "");
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_state_set(fork, "past", &start, error); }), "");
  EXPECT_EQ(run(fork), "");
  EXPECT_EQ(output_of(session, 0), 11);
  EXPECT_EQ(run(state), "");
  EXPECT_EQ(output_of(session, 0), 3) << "the other went its own way";
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_state_reset(state, error); }), "");
  EXPECT_EQ(run(state), "");
  EXPECT_EQ(output_of(session, 0), 1);
  tenon_tensor kept;
  tenon_tensor_init(&kept);
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_state_get(state, "past", &kept, error); }), "");
  EXPECT_EQ(static_cast<float*>(kept.data)[1], 2);
  EXPECT_NE(told([&](tenon_error** error) { return tenon_state_get(state, "x", &kept, error); }), "");
  EXPECT_NE(run(nullptr).find("state is null"), std::string::npos);
  tenon_memory memory;
  tenon_memory_init(&memory);
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_session_memory(session, &memory, error); }), "");
  EXPECT_GT(memory.arena_bytes, 0);
  tenon_state_free(fork);
  tenon_state_free(state);
  tenon_session_free(session);
  tenon_engine_free(engine);
}

/// Two batches, and how often each was asked for.
struct Samples {
  Tensor batches[2] = {random_tensor({1, 3, 8, 8}, 1), random_tensor({1, 3, 8, 8}, 2)};
  tenon_tensor tensor;
  tenon_named_tensor named{nullptr, &tensor};
  int asked = 0, give = 2;
};

int32_t next_batch(void* context, const tenon_named_tensor** inputs) {
  auto& samples = *static_cast<Samples*>(context);
  if (samples.give < 0) return -1;
  if (samples.asked == samples.give) return 0;
  samples.tensor = of_floats(samples.batches[samples.asked++].data<float>(), {1, 3, 8, 8});
  *inputs = &samples.named;
  return 1;
}

TEST(CApi, CalibratesByAFunction) {
  const Folder folder;
  const std::string model = small_net(), cache = folder / "ranges";
  Samples samples;
  tenon_calibrator calibrator;
  tenon_calibrator_init(&calibrator);
  calibrator.next_batch = next_batch, calibrator.context = &samples, calibrator.method = "minmax";
  calibrator.max_error = 1e9, calibrator.cache = cache.c_str();
  tenon_shape shape{"x", 4, {1, 3, 8, 8}};
  tenon_build_options options = quick();
  options.precision = "int8", options.calibrator = &calibrator, options.shapes = &shape, options.shape_count = 1;
  tenon_engine *engine = nullptr, *retuned = nullptr;
  const auto build = [&] {
    return told(
        [&](tenon_error** error) { return tenon_build_memory(model.data(), model.size(), &options, &engine, error); });
  };
  ASSERT_EQ(build(), "");
  EXPECT_EQ(samples.asked, 2);
  EXPECT_STREQ(tenon_engine_precision(engine), "int8");
  EXPECT_TRUE(std::ifstream(cache).good());
  options.precision = nullptr, options.calibrator = nullptr;
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_engine_retune(engine, &options, &retuned, error); }), "");
  EXPECT_STREQ(tenon_engine_precision(retuned), "int8");
  tenon_engine_free(retuned);
  tenon_engine_free(engine);
  options.precision = "int8", options.calibrator = &calibrator;
  samples.give = -1, calibrator.cache = nullptr;
  EXPECT_NE(build().find("cancelled"), std::string::npos);
  calibrator.method = "best";
  EXPECT_NE(build().find("no calibrator is called \"best\""), std::string::npos);
  calibrator.next_batch = nullptr;
  EXPECT_NE(build().find("next_batch is null"), std::string::npos);
}

/// What a judge was asked, and what it answers.
struct Opinion {
  int references = 0, scores = 0, told = 0;
  double drop = 0, value = 90;
  const char* objection = nullptr;
};

/// Runs the engine that it is given, on what is in the session's memory.
void run_once(const tenon_engine* engine) {
  tenon_session* session = nullptr;
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_session_new(engine, nullptr, &session, error); }), "");
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_session_run(session, error); }), "");
  tenon_session_free(session);
}

int32_t reference_of(void* context, const tenon_engine* engine, double* value) {
  auto& opinion = *static_cast<Opinion*>(context);
  ++opinion.references;
  EXPECT_STREQ(tenon_engine_precision(engine), "fp32");
  run_once(engine);
  *value = opinion.value;
  return opinion.told;
}

int32_t score_of(void* context, const tenon_engine* engine, tenon_score* score) {
  auto& opinion = *static_cast<Opinion*>(context);
  ++opinion.scores;
  EXPECT_EQ(score->size, sizeof *score);
  run_once(engine);
  score->value = opinion.value - opinion.drop, score->drop = opinion.drop, score->objection = opinion.objection;
  return opinion.told;
}

TEST(CApi, JudgesByFunctions) {
  const std::string model = small_net();
  Samples samples;
  Opinion opinion;
  tenon_calibrator calibrator;
  tenon_calibrator_init(&calibrator);
  calibrator.next_batch = next_batch, calibrator.context = &samples, calibrator.method = "minmax";
  tenon_judge judge;
  tenon_judge_init(&judge);
  EXPECT_EQ(judge.max_drop, 0.1);
  judge.reference = reference_of, judge.score = score_of, judge.context = &opinion, judge.metric = "words right";
  tenon_shape shape{"x", 4, {1, 3, 8, 8}};
  tenon_build_options options = quick();
  options.precision = "int8", options.calibrator = &calibrator, options.judge = &judge;
  options.shapes = &shape, options.shape_count = 1;
  tenon_engine* engine = nullptr;
  /// The engine's text, or why there is none.
  const auto build = [&] {
    samples.asked = 0;
    const std::string error = told(
        [&](tenon_error** error) { return tenon_build_memory(model.data(), model.size(), &options, &engine, error); });
    if (!error.empty()) return error;
    tenon_bytes* text = nullptr;
    EXPECT_EQ(told([&](tenon_error** error) { return tenon_engine_inspect(engine, TENON_TEXT, 1, &text, error); }), "");
    const std::string all = static_cast<const char*>(tenon_bytes_data(text));
    EXPECT_EQ(all.size(), tenon_bytes_size(text));
    tenon_bytes_free(text);
    tenon_engine_free(engine);
    return all;
  };
  const auto has_int8 = [](const std::string& text) { return text.find("Int8Conv") != std::string::npos; };
  EXPECT_TRUE(has_int8(build()));
  EXPECT_EQ(opinion.references, 1);
  EXPECT_GT(opinion.scores, 0);
  opinion.drop = 5;
  EXPECT_FALSE(has_int8(build())) << "it loses more than 0.1";
  judge.max_drop = 6;
  EXPECT_TRUE(has_int8(build()));
  opinion.objection = "it says nothing";
  EXPECT_FALSE(has_int8(build()));
  opinion = {.value = NAN};
  EXPECT_NE(build().find("a score is no finite number"), std::string::npos);
  opinion = {.told = 1};
  EXPECT_NE(build().find("the build was cancelled"), std::string::npos);
  judge.max_drop = -1;
  EXPECT_NE(build().find("max_drop is -1"), std::string::npos);
  judge.score = nullptr;
  EXPECT_NE(build().find("score is null"), std::string::npos);
}

/// y = x and z, one behind the other in each element.
TEST(CApi, TakesAndGivesStrings) {
  const auto strings = static_cast<Element>(TENON_STRING);
  const std::string model = test::model(
      input("x", {2}, strings) + input("z", {2}, strings) + node("c", "StringConcat", {"x", "z"}, {"y"}) + output("y"),
      "", 20);
  const tenon_build_options options = quick();
  tenon_engine* engine = nullptr;
  tenon_session* session = nullptr;
  ASSERT_EQ(told([&](tenon_error** error) {
              return tenon_build_memory(model.data(), model.size(), &options, &engine, error);
            }),
            "");
  ASSERT_EQ(told([&](tenon_error** error) { return tenon_session_new(engine, nullptr, &session, error); }), "");
  EXPECT_EQ(tenon_dtype_size(TENON_STRING), sizeof(tenon_string));
  const std::string zero("a\0b", 3);
  tenon_string x[] = {{zero.data(), zero.size()}, {nullptr, 0}}, z[] = {{"!", 1}, {"?", 1}};
  tenon_tensor given;
  tenon_tensor_init(&given);
  given.dtype = TENON_STRING, given.rank = 1, given.dims[0] = 2;
  const auto bind = [&](const char* name, tenon_string* data) {
    given.data = data;
    return told([&](tenon_error** error) { return tenon_session_bind_input(session, name, &given, error); });
  };
  EXPECT_EQ(bind("x", x), "");
  EXPECT_EQ(bind("z", z), "");
  x[0] = {"copied", 6};
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(told([&](tenon_error** error) { return tenon_session_run(session, error); }), "");
    tenon_tensor y;
    tenon_tensor_init(&y);
    ASSERT_EQ(told([&](tenon_error** error) { return tenon_session_output(session, 0, &y, error); }), "");
    EXPECT_EQ(y.dtype, TENON_STRING);
    const auto* texts = static_cast<const tenon_string*>(y.data);
    EXPECT_EQ(std::string(texts[0].data, texts[0].size), zero + "!");
    EXPECT_STREQ(texts[1].data, "?");
    DLManagedTensor* none = nullptr;
    EXPECT_NE(told([&](tenon_error** error) { return tenon_tensor_to_dlpack(&y, 0, &none, error); }), "");
  }
  x[1] = {nullptr, 1};
  EXPECT_NE(bind("x", x).find("a string is null"), std::string::npos);
  EXPECT_NE(bind("x", nullptr).find("is null"), std::string::npos);
  tenon_tensor own;
  tenon_tensor_init(&own);
  EXPECT_NE(told([&](tenon_error** error) { return tenon_session_input(session, 0, &own, error); }), "");
  tenon_session_free(session);
  tenon_engine_free(engine);
}

TEST(CApi, TakesAndGivesTensorsOfDLPack) {
  float data[] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 2}, strides[] = {1, 3};
  dlpack::View view{data, {dlpack::device_cpu, 0}, 2, {dlpack::type_float, 32, 1}, shape, strides, sizeof(float)};
  tenon_tensor tensor;
  tenon_tensor_init(&tensor);
  const auto take = [&] {
    return told([&](tenon_error** error) {
      return tenon_tensor_from_dlpack(reinterpret_cast<const DLTensor*>(&view), &tensor, error);
    });
  };
  ASSERT_EQ(take(), "");
  EXPECT_EQ(tensor.data, data + 1);
  EXPECT_EQ(tensor.dtype, TENON_F32);
  EXPECT_TRUE(tensor.has_strides);
  EXPECT_EQ(tensor.strides[1], 3);
  DLManagedTensor* same = nullptr;
  DLManagedTensorVersioned* copy = nullptr;
  ASSERT_EQ(told([&](tenon_error** error) { return tenon_tensor_to_dlpack(&tensor, 0, &same, error); }), "");
  ASSERT_EQ(told([&](tenon_error** error) { return tenon_tensor_to_dlpack_versioned(&tensor, 1, &copy, error); }), "");
  auto* first = reinterpret_cast<dlpack::Managed*>(same);
  auto* second = reinterpret_cast<dlpack::ManagedVersioned*>(copy);
  EXPECT_EQ(first->tensor.data, data + 1);
  EXPECT_EQ(second->major, 1u);
  data[1] = 10;
  EXPECT_EQ(static_cast<float*>(second->tensor.data)[0], 1);
  EXPECT_EQ(static_cast<float*>(second->tensor.data)[1], 4) << "a copy is dense";
  first->deleter(first), second->deleter(second);
  view.device.type = 7;
  EXPECT_NE(take().find("device of type 7"), std::string::npos);
  view.device.type = dlpack::device_cpu, view.ndim = 9;
  EXPECT_NE(take().find("9 axes"), std::string::npos);
  EXPECT_NE(told([&](tenon_error** error) { return tenon_tensor_from_dlpack(nullptr, &tensor, error); }), "");
  EXPECT_NE(told([&](tenon_error** error) { return tenon_tensor_to_dlpack(nullptr, 0, &same, error); }), "");
}

TEST(CApi, TellsWhatItIsAndWhy) {
  const std::string model = small_net(1);
  const tenon_build_options options = quick();
  tenon_engine* engine = nullptr;
  ASSERT_EQ(told([&](tenon_error** error) {
              return tenon_build_memory(model.data(), model.size(), &options, &engine, error);
            }),
            "");
  tenon_why_options why;
  tenon_why_options_init(&why);
  const auto text_of = [&](auto call) {
    tenon_bytes* bytes = nullptr;
    const std::string error = told([&](tenon_error** error) { return call(&bytes, error); });
    const std::string text = bytes ? static_cast<const char*>(tenon_bytes_data(bytes)) : error;
    tenon_bytes_free(bytes);
    return text;
  };
  const auto inspected = [&](int format) {
    return text_of([&](tenon_bytes** bytes, tenon_error** error) {
      return tenon_engine_inspect(engine, static_cast<tenon_text_format>(format), 0, bytes, error);
    });
  };
  const auto explained = [&] {
    return text_of(
        [&](tenon_bytes** bytes, tenon_error** error) { return tenon_engine_why(engine, &why, bytes, error); });
  };
  EXPECT_NE(inspected(TENON_TEXT).find("runs     on cpu"), std::string::npos);
  EXPECT_NE(inspected(TENON_JSON).find("\"arena_bytes\""), std::string::npos);
  EXPECT_NE(inspected(2).find("no format of text"), std::string::npos);
  why.format = TENON_JSON;
  EXPECT_NE(explained().find("\"measured\": true"), std::string::npos) << explained();
  why.recorded = 1;
  EXPECT_NE(explained().find("\"measured\": false"), std::string::npos);
  why.format = TENON_TEXT, why.node = "stem";
  EXPECT_NE(explained().find("stem"), std::string::npos);
  why.node = "sten";
  EXPECT_NE(explained().find("stem"), std::string::npos) << "what may be meant";
  tenon_engine_free(engine);
}

TEST(CApi, LimitsTheProcess) {
  const Limits before = limits();
  tenon_limits tight;
  tenon_limits_init(&tight);
  tight.memory_bytes = 4096;
  EXPECT_EQ(told([&](tenon_error** error) { return tenon_set_limits(&tight, error); }), "");
  EXPECT_EQ(limits().memory_bytes, 4096);
  EXPECT_EQ(limits().loop_rounds, Limits().loop_rounds);
  tight.memory_bytes = -1;
  EXPECT_NE(told([&](tenon_error** error) { return tenon_set_limits(&tight, error); }), "");
  EXPECT_NE(told([&](tenon_error** error) { return tenon_set_limits(nullptr, error); }), "");
  set_limits(before);
}

}  // namespace
}  // namespace tenon
