// SPDX-License-Identifier: Apache-2.0
// What C programs do beyond running an engine (tests/package/c_program): values that live from run to run, calibration,
// kernels timed anew, memory and limits.
#include <gtest/gtest.h>
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
            }), "");
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
    return told([&](tenon_error** error) {
      return tenon_build_memory(model.data(), model.size(), &options, &engine, error);
    });
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
