// SPDX-License-Identifier: Apache-2.0
#include "cli/moved_data.h"

#include <gtest/gtest.h>

#include <utility>

namespace tenon::cli {
namespace {

class Two : public Calibrator {
 public:
  explicit Two(CalibrationBatch batch) : batch_(std::move(batch)) {}
  bool next_batch(CalibrationBatch& batch) override {
    batch = batch_;
    return calls_++ < 2;
  }

 private:
  CalibrationBatch batch_;
  int calls_ = 0;
};

/// Pixels count up from 0.
Tensor counting(const Dims& dims) {
  Tensor tensor(DType::f32, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = static_cast<float>(at);
  return tensor;
}

Tensor moved(const Tensor& image, double down, double right) {
  const auto data = moved_data(std::make_shared<Two>(CalibrationBatch{{{"x", image}}, {"one"}}), down, right);
  CalibrationBatch batch;
  EXPECT_TRUE(data->next_batch(batch));
  EXPECT_EQ(batch.names, std::vector<std::string>{"one"});
  return batch.inputs["x"];
}

TEST(moved_data, goes_by_a_part_of_the_side_and_holds_the_border) {
  const Tensor image = counting({2, 3, 8, 16});
  const Tensor down = moved(image, 0.13, 0), left = moved(image, 0, -0.13);
  for (int64_t plane = 0; plane < 6; ++plane)
    for (int64_t y = 0; y < 8; ++y)
      for (int64_t x = 0; x < 16; ++x) {
        const auto at = [&](int64_t row, int64_t column) {
          return static_cast<float>((plane * 8 + row) * 16 + column);
        };
        EXPECT_EQ(down.data<float>()[(plane * 8 + y) * 16 + x], at(std::max<int64_t>(y - 1, 0), x));
        EXPECT_EQ(left.data<float>()[(plane * 8 + y) * 16 + x], at(y, std::min<int64_t>(x + 2, 15)));
      }
  EXPECT_EQ(image.data<float>()[1], 1) << "the data itself stays";
}

TEST(moved_data, takes_channels_behind_the_sides) {
  const Tensor right = moved(counting({1, 5, 5, 3}), 0, 0.2);
  for (int64_t y = 0; y < 5; ++y)
    for (int64_t x = 0; x < 5; ++x)
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(right.data<float>()[(y * 5 + x) * 3 + c],
                  static_cast<float>((y * 5 + std::max<int64_t>(x - 1, 0)) * 3 + c));
}

TEST(moved_data, leaves_what_holds_no_images) {
  EXPECT_TRUE(holds_images(Tensor(DType::f32, {1, 1, 28, 28})));
  EXPECT_FALSE(holds_images(Tensor(DType::f32, {1, 64, 28, 28})));
  EXPECT_FALSE(holds_images(Tensor(DType::i64, {1, 3, 8, 8})));
  EXPECT_FALSE(holds_images(Tensor(DType::f32, {1, 300})));
  EXPECT_EQ(moved(counting({4, 64}), 0.5, 0.5).data<float>()[5], 5);
}

}  // namespace
}  // namespace tenon::cli
