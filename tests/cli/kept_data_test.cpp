// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_data.h"

#include <gtest/gtest.h>

#include "base/memory.h"

namespace tenon::cli {
namespace {

class Three : public Calibrator {
 public:
  explicit Three(int& reads) : reads_(reads) {}
  int64_t samples() const override { return 3; }
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == 3) return false;
    Tensor tensor(DType::f32, {1, 4});
    tensor.data<float>()[0] = static_cast<float>(at_);
    batch.inputs = {{"x", tensor}};
    batch.names = {std::to_string(at_++)};
    ++reads_;
    return true;
  }

 private:
  int& reads_;
  int at_ = 0;
};

/// What one pass gives, at most `most` samples of it.
std::string pass(KeptData& kept, int most = 9) {
  std::string all;
  const auto data = kept.samples();
  EXPECT_EQ(data->samples(), 3);
  CalibrationBatch batch;
  while (most-- > 0 && data->next_batch(batch)) {
    EXPECT_EQ(std::to_string(static_cast<int>(batch.inputs.at("x").data<float>()[0])), batch.names[0]);
    all += batch.names[0];
  }
  return all;
}

TEST(kept_data, are_read_once) {
  int reads = 0;
  KeptData kept([&] { return std::make_shared<Three>(reads); });
  EXPECT_EQ(pass(kept, 2), "01") << "the rest is not known yet";
  for (int round = 0; round < 3; ++round) EXPECT_EQ(pass(kept), "012");
  EXPECT_EQ(reads, 2 + 3);
}

TEST(kept_data, are_known_without_asking_for_more_than_there_are) {
  int reads = 0;
  KeptData kept([&] { return std::make_shared<Three>(reads); });
  for (int round = 0; round < 3; ++round) EXPECT_EQ(pass(kept, 3), "012");
  EXPECT_EQ(reads, 3);
}

TEST(kept_data, are_read_again_where_they_are_too_large) {
  int reads = 0;
  KeptData kept([&] { return std::make_shared<Three>(reads); }, 40);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(pass(kept), "012");
  EXPECT_EQ(reads, 9);
}

TEST(kept_outputs, are_made_once_while_there_is_room) {
  int runs = 0;
  Tensor output(DType::f32, {1, 4});
  const auto run = [&] {
    output.data<float>()[0] = static_cast<float>(++runs);
    return std::vector<Tensor>{output};
  };
  KeptOutputs kept(2 * output.bytes());
  const auto of = [&](size_t batch) { return kept.of(batch, run)[0].data<float>()[0]; };
  for (const size_t batch : {0, 1, 2}) EXPECT_EQ(of(batch), batch + 1);
  EXPECT_EQ(of(0), 1) << "a copy: the engine's own tensor has changed since";
  EXPECT_EQ(of(1), 2);
  EXPECT_EQ(of(2), 4) << "there was no room";
  EXPECT_EQ(runs, 4);
  Limits limits;
  limits.memory_bytes = 1 << 20;
  const auto budget = Budget::of(limits);
  const BudgetScope scope(budget);
  KeptOutputs much;
  output = Tensor(DType::f32, {1, 20'000});
  much.of(0, run), much.of(0, run);
  EXPECT_EQ(runs, 6) << "it is more than a sixteenth of the limit";
}

}  // namespace
}  // namespace tenon::cli
