// SPDX-License-Identifier: Apache-2.0
#include "cli/noisy_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/output_kind.h"
#include "cli/vector_kind.h"

namespace tenon::cli {
namespace {

/// 0 to 1 with all bits of a float.
std::vector<float> numbers(size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (size_t at = 0; at < count; ++at) values.push_back(static_cast<float>(random()) * 0x1p-32f);
  return values;
}

TEST(last_bit, is_a_step_where_numbers_were_whole) {
  for (const double levels : {255., 65535.}) {
    std::vector<float> values = numbers(20000);
    for (float& x : values)  // as an image's channel is normalised
      x = (static_cast<float>(std::round(x * levels)) / static_cast<float>(levels) - 0.485f) / 0.229f;
    const LastBit bit = last_bit(values);
    EXPECT_NEAR(bit.step * levels * 0.229, 1, 1e-3) << levels;
    EXPECT_EQ(bit.share, 0) << levels;
  }
}

TEST(last_bit, is_a_share_of_numbers_that_have_a_mantissa) {
  std::vector<float> values = numbers(1000);
  EXPECT_EQ(last_bit(values).step, 0);
  EXPECT_EQ(last_bit(values).share, 0x1p-23);
  for (float& x : values) {  // as fp16 holds it
    int exponent;
    const float part = std::frexp(x * x * x, &exponent);
    x = std::ldexp(std::round(part * 2048) / 2048, exponent);
  }
  EXPECT_EQ(last_bit(values).step, 0);
  EXPECT_EQ(last_bit(values).share, 0x1p-10);
}

TEST(last_bit, is_unknown_of_a_few_numbers) {
  const std::vector<float> mask{0, 1, 1, 0, 1};
  EXPECT_EQ(last_bit(mask).step, 0);
  EXPECT_EQ(last_bit(mask).share, 0);
}

class Once : public Calibrator {
 public:
  explicit Once(CalibrationBatch batch) : batch_(std::move(batch)) {}
  bool next_batch(CalibrationBatch& batch) override {
    batch = batch_;
    return !std::exchange(done_, true);
  }

 private:
  CalibrationBatch batch_;
  bool done_ = false;
};

TEST(noisy_data, moves_each_channel_by_its_own_last_bit_and_leaves_tokens) {
  const std::vector<float> parts = numbers(2 * 1024);
  Tensor image(DType::f32, {1, 2, 32, 32}), tokens(DType::i64, {1, 4});
  for (int64_t at = 0; at < 2048; ++at)
    image.data<float>()[at] = static_cast<float>(std::round(parts[at] * 255)) / (at < 1024 ? 255.f : 1.f);
  std::fill_n(tokens.data<int64_t>(), 4, 7);
  const Tensor before = image.copy();
  const auto data = noisy_data(std::make_shared<Once>(CalibrationBatch{{{"x", image}, {"t", tokens}}, {"one"}}));
  CalibrationBatch batch;
  ASSERT_TRUE(data->next_batch(batch));
  EXPECT_EQ(batch.names, std::vector<std::string>{"one"});
  for (int channel = 0; channel < 2; ++channel) {
    float most = 0;
    for (int at = channel * 1024; at < channel * 1024 + 1024; ++at)
      most = std::max(most, std::fabs(batch.inputs["x"].data<float>()[at] - before.data<float>()[at]));
    const float step = channel == 0 ? 1.f / 255 : 1;
    EXPECT_LE(most, step * 1.001f);
    EXPECT_GT(most, step * 0.9f);
  }
  EXPECT_EQ(image.data<float>()[0], before.data<float>()[0]);
  EXPECT_EQ(batch.inputs["t"].data<int64_t>()[3], 7);
  EXPECT_FALSE(data->next_batch(batch));
}

Tensor of(const Dims& dims, const std::function<float(int64_t)>& make) {
  Tensor tensor(DType::f32, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = make(at);
  return tensor;
}

TEST(output_kind, is_seen_from_the_numbers) {
  const auto wave = [](int64_t at) { return std::sin(static_cast<float>(at)); };
  const auto positive = [](int64_t at) { return std::fabs(std::sin(static_cast<float>(at))); };
  const std::vector<Tensor> image{of({1, 3, 8, 8}, positive)}, tokens{Tensor(DType::i64, {1, 4})};
  const auto kind = [&](const Tensor& output) { return kind_of(image, {output}); };
  const auto logits = [](int64_t at) { return 9 * std::sin(static_cast<float>(at)); };
  const auto background = [](int64_t at) { return at % 6 == 0 ? 20.f : -1.f; };  // wins everywhere
  EXPECT_EQ(kind(of({1, 6, 8, 8}, logits)), OutputKind::class_map);
  EXPECT_EQ(kind(of({1, 8, 8, 6}, logits)), OutputKind::class_map);
  EXPECT_EQ(kind(of({1, 8, 8, 6}, background)), OutputKind::class_map);
  const auto mostly_above = [](int64_t at) { return at % 6 == 0 ? 20.f : at % 25 == 0 ? -1.f : 1.f; };
  EXPECT_EQ(kind(of({1, 8, 8, 6}, mostly_above)), OutputKind::class_map);
  const auto never_below = [](int64_t at) { return at % 6 == 0 ? 20.f : 0.f; };  // behind a ReLU
  EXPECT_EQ(kind(of({1, 8, 8, 6}, never_below)), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 64, 8, 8}, wave)), OutputKind::signal);  // features
  EXPECT_EQ(kind(of({1, 9, 6}, logits)), OutputKind::sequence);
  EXPECT_EQ(kind(of({1, 9, 64}, wave)), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 9, 6}, [](int64_t at) { return 90 * (at % 7) + 0.5f; })), OutputKind::signal);  // boxes
  EXPECT_EQ(kind_of(image, {of({1, 9, 6}, logits), of({1, 9, 4}, logits)}), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 2, 8, 8}, [](int64_t at) { return at < 64 ? 0.25f : 0.75f; })), OutputKind::class_map);
  EXPECT_EQ(kind(Tensor(DType::i64, {1, 8, 8})), OutputKind::class_map);
  EXPECT_EQ(kind(of({1, 2, 8, 8}, wave)), OutputKind::signal);       // a flow
  EXPECT_EQ(kind(of({1, 17, 8, 8}, positive)), OutputKind::signal);  // heat maps
  EXPECT_EQ(kind(of({2, 64}, [](int64_t) { return 0.125f; })), OutputKind::embedding);
  EXPECT_EQ(kind(of({2, 64}, positive)), OutputKind::signal);  // scores behind a ReLU are classes
  EXPECT_EQ(kind(of({2, 64}, wave)), OutputKind::signal);
  EXPECT_EQ(kind(of({2, 64}, [](int64_t) { return 1.f / 64; })), OutputKind::signal);  // probabilities
  EXPECT_EQ(kind_of(tokens, {of({1, 4, 3000}, wave)}), OutputKind::tokens);
  EXPECT_EQ(kind_of(tokens, {of({1, 4, 768}, wave)}), OutputKind::signal);
}

/// One number of a spot on each of five planes of 16 x 16.
float spot(int64_t plane, int64_t place, double reach) {
  const double x = static_cast<double>(place % 16) - 3 - 2.5 * static_cast<double>(plane);
  const double y = static_cast<double>(place / 16) - 7.2;
  return static_cast<float>(std::exp(-(x * x + y * y) / (2 * reach * reach)));
}

TEST(output_kind, sees_key_points_in_heat_maps) {
  const std::vector<Tensor> image{of({1, 3, 8, 8}, [](int64_t) { return 0.5f; })};
  const auto kind = [&](const Tensor& output) { return kind_of(image, {output}); };
  const auto map = [](double reach) {
    return of({1, 5, 16, 16}, [&](int64_t at) { return spot(at / 256, at % 256, reach); });
  };
  EXPECT_EQ(kind(map(1)), OutputKind::points);
  EXPECT_EQ(kind(of({1, 16, 16, 5}, [&](int64_t at) { return spot(at % 5, at / 5, 1); })), OutputKind::points);
  EXPECT_EQ(kind(of({1, 5, 16, 16}, [&](int64_t at) { return std::max(-9.f, std::log(spot(at / 256, at % 256, 1))); })),
            OutputKind::points);                // logits, though one class wins at each position
  EXPECT_EQ(kind(map(8)), OutputKind::signal);  // no spots
  EXPECT_EQ(kind_of(image, {map(1), map(8)}), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 2, 16, 16}, [&](int64_t at) { return spot(at / 256, at % 256, 1); })), OutputKind::signal);
  const auto two = [](int64_t at) { return std::max(spot(0, at % 256, 1), spot(4, at % 256, 1)); };
  EXPECT_EQ(kind(of({1, 5, 16, 16}, two)), OutputKind::signal);
}

TEST(output_kind, sees_masks) {
  const std::vector<Tensor> image{of({1, 3, 8, 8}, [](int64_t) { return 0.5f; })};
  const auto kind = [&](const Tensor& output) { return kind_of(image, {output}); };
  const auto square = [](int64_t at) { return at % 16 < 5 && at / 16 % 16 < 4 ? 0.97f : at % 16 == 5 ? 0.4f : 0.02f; };
  EXPECT_EQ(kind(of({1, 1, 16, 16}, square)), OutputKind::mask);
  EXPECT_EQ(kind(of({1, 16, 16, 1}, square)), OutputKind::mask);
  const auto soft = [](int64_t at) { return at % 16 < 5 ? 0.97f : at % 16 < 9 ? 0.5f : 0.02f; };
  EXPECT_EQ(kind(of({1, 1, 16, 16}, soft)), OutputKind::mask);
  EXPECT_EQ(kind(of({1, 1, 16, 16}, [&](int64_t at) { return soft(at) * 0.8f + 0.1f; })), OutputKind::signal);
  EXPECT_EQ(kind(of({2, 16, 16}, square)), OutputKind::signal);  // steps of classes, perhaps
  EXPECT_EQ(kind(of({1, 2, 16, 16}, square)), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 1, 16, 16}, [&](int64_t at) { return 20 * square(at) - 10; })), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 1, 16, 16}, [](int64_t at) { return static_cast<float>(at) / 256; })), OutputKind::signal);
  EXPECT_EQ(kind(of({1, 1, 16, 16}, [](int64_t at) { return spot(1, at, 1); })), OutputKind::signal);  // one heat map
}

TEST(output_kind, sees_images) {
  const std::vector<Tensor> image{of({1, 3, 8, 8}, [](int64_t) { return 0.5f; })};
  const auto kind = [&](const Tensor& output) { return kind_of(image, {output}); };
  const auto wave = [](int64_t at) { return 0.5f + 0.5f * std::sin(static_cast<float>(at)); };
  EXPECT_EQ(kind(of({1, 3, 16, 16}, wave)), OutputKind::image);
  EXPECT_EQ(kind(of({1, 16, 16, 3}, [&](int64_t at) { return 255 * wave(at); })), OutputKind::image);
  EXPECT_EQ(kind(of({1, 3, 16, 16}, [&](int64_t at) { return 12 * wave(at); })), OutputKind::signal);  // logits
  EXPECT_EQ(kind(of({1, 2, 16, 16}, wave)), OutputKind::signal);
}

TEST(output_kind, counts_how_near_key_points_stay) {
  const auto kept = [](const Tensor& exact, const Tensor& other) {
    Kept sum;
    add_kept(OutputKind::points, {exact}, {other}, 0, sum);
    return sum.share.value();
  };
  const Tensor exact = of({1, 5, 16, 16}, [](int64_t at) { return spot(at / 256, at % 256, 1); });
  Tensor other = exact.copy();
  for (int64_t at = 0; at < other.elements(); ++at) other.data<float>()[at] *= 0.7f;
  EXPECT_NEAR(kept(exact, other), 1, 1e-6);  // places count, not values
  for (int64_t at = 0; at < 256; ++at) other.data<float>()[at] = spot(4, at, 1);
  EXPECT_NEAR(kept(exact, other), 0.8, 0.02);
}

/// Three samples of so many numbers.
std::vector<std::vector<float>> numbers(size_t size, const std::function<float(size_t)>& make) {
  std::vector<std::vector<float>> samples(3, std::vector<float>(size));
  for (auto& one : samples)
    for (size_t at = 0; at < size; ++at) one[at] = make(at);
  return samples;
}

TEST(output_kind, tells_coordinates_from_classes) {
  const auto wave = [](size_t at) { return std::sin(static_cast<float>(at)); };
  const auto pixels = [&](size_t at) { return 90 + 60 * wave(at); };
  EXPECT_EQ(kind_of_vectors(numbers(14, pixels)), OutputKind::coordinates);
  EXPECT_EQ(kind_of_vectors(numbers(14, [&](size_t at) { return pixels(at) / 200; })), OutputKind::coordinates);
  EXPECT_EQ(kind_of_vectors(numbers(14, wave)), OutputKind::coordinates);  // from -1 to 1
  EXPECT_EQ(kind_of_vectors(numbers(14, [&](size_t at) { return 5 * wave(at); })), std::nullopt);
  EXPECT_EQ(kind_of_vectors(numbers(14, [&](size_t at) { return std::max(0.f, 5 * wave(at)); })), std::nullopt);
  EXPECT_EQ(kind_of_vectors(numbers(14, [](size_t at) { return at == 3 ? 0.9f : 0.01f; })),
            std::nullopt);                                                                        // many labels
  EXPECT_EQ(kind_of_vectors({{3.2f, 3.9f, 2.8f}, {2.1f, 3.6f, 1.9f}}), OutputKind::coordinates);  // opinion scores
  EXPECT_EQ(kind_of_vectors({{3.2f, 3.9f, 2.8f}, {4.1f, 3.6f, 0.1f}}), std::nullopt);
  EXPECT_EQ(kind_of_vectors({{-0.1f, -2.4f}, {-3.1f, -0.05f}}), std::nullopt);  // logarithms of probabilities
  EXPECT_EQ(kind_of_vectors(numbers(1, pixels)), std::nullopt);
  EXPECT_EQ(kind_of_vectors({}), std::nullopt);
  EXPECT_EQ(kind_of_vectors({{0.9f, 0, 0.8f, 0.1f}, {0, 0, 0.1f, 0}, {0, 0.02f, 0.9f, 0}}), OutputKind::labels);
  EXPECT_EQ(kind_of_vectors({{0, 0, 0.8f, 0.6f}, {0, 0, 0.1f, 0}, {0, 0.02f, 0.9f, 0}}), std::nullopt);  // on a scale
  EXPECT_EQ(kind_of_vectors({{0.6f, 0.4f, 0.7f, 0.3f}, {0.3f, 0.6f, 0.4f, 0.6f}}), OutputKind::coordinates);
  EXPECT_EQ(kind_of_vectors({{9, 0, 8, 1}, {0, 0, 1, 0}, {0, 0, 9, 0}}), std::nullopt);
}

TEST(output_kind, takes_a_class_that_is_nearly_certain_for_no_embedding) {
  const auto certain = [](int64_t at) { return at % 64 == 5 ? 0.9996f : 0.0004f / 63; };  // a vector of length 0.9996
  EXPECT_FALSE(is_embedding(of({2, 64}, certain)));
}

TEST(output_kind, tells_embeddings_of_any_length_from_classes) {
  const auto wave = [](size_t at) { return 3 * std::sin(static_cast<float>(at)); };
  EXPECT_TRUE(are_embeddings(numbers(64, wave)));
  EXPECT_TRUE(are_embeddings(numbers(64, [&](size_t at) { return std::max(0.f, wave(at)); })));
  EXPECT_FALSE(are_embeddings(numbers(64, [&](size_t at) { return at == 9 ? 12 : wave(at); })));  // a class
  EXPECT_FALSE(are_embeddings(numbers(64, [&](size_t at) { return wave(at) - 9; })));  // logarithms of probabilities
  EXPECT_FALSE(are_embeddings(numbers(64, [&](size_t at) { return wave(at) / 8 + 0.5f; })));  // of many classes at once
  EXPECT_FALSE(are_embeddings(numbers(10, wave)));
  EXPECT_FALSE(are_embeddings({}));
}

TEST(output_kind, has_samples_in_front_where_a_network_has_time_there) {
  const auto first = [](const Dims& dims, int64_t batch) {
    return by_sample({of(dims, [](int64_t at) { return static_cast<float>(at); })}, batch)[0];
  };
  const Tensor turned = first({3, 2, 2}, 2), one = first({3, 1, 2}, 1), rows = first({3, 2}, 1);
  EXPECT_EQ(turned.dims(), Dims({2, 3, 2}));
  EXPECT_EQ(turned.data<float>()[2], 4);  // the second step of the first sample
  EXPECT_EQ(turned.data<float>()[6], 2);
  EXPECT_EQ(one.dims(), Dims({1, 3, 2}));
  EXPECT_EQ(one.data<float>()[5], 5);
  EXPECT_EQ(rows.dims(), Dims({1, 3, 2}));
  EXPECT_EQ(first({2, 3}, 2).dims(), Dims({2, 3}));
  Tensor wide(DType::f64, {2, 3});
  for (int64_t at = 0; at < 6; ++at) wide.data<double>()[at] = static_cast<double>(at) / 2;
  const Tensor narrow = by_sample({wide}, 2)[0];
  ASSERT_EQ(narrow.dtype(), DType::f32);
  EXPECT_EQ(narrow.data<float>()[5], 2.5f);
}

TEST(output_kind, counts_what_is_left_of_a_sample) {
  const auto kept = [](OutputKind kind, const Tensor& exact, const Tensor& other) {
    Kept sum;
    add_kept(kind, {exact}, {other}, 1, sum);
    return std::pair(sum.share.value(), sum.divergence.mean());
  };
  // The second sample is the one that counts: of its four positions one has another class.
  Tensor exact = of({2, 4, 2, 2}, [](int64_t at) { return at / 4 % 4 == at % 4 ? 5.f : -5.f; }), other = exact.copy();
  other.data<float>()[16 + 4 * 3] = 6;
  other.data<float>()[0] = -7;
  EXPECT_DOUBLE_EQ(kept(OutputKind::class_map, exact, other).first, 0.75);
  // The same on the last axis, where the numbers of this sample alone would not say that they are logits.
  Tensor last = of({2, 8, 8, 4}, [](int64_t at) { return at % 4 == 1 ? 2.f : 1.f; }), moved = last.copy();
  moved.data<float>()[256 + 2] = 3;
  EXPECT_DOUBLE_EQ(kept(OutputKind::class_map, last, moved).first, 63. / 64);
  // Blanks between characters are none of them: "bc" for "bcb" is one edit of three.
  const Tensor text = of({2, 6, 3}, [](int64_t at) { return at % 3 == "010201"[at / 3 % 6] - '0'; });
  const Tensor shorter = of({2, 6, 3}, [](int64_t at) { return at % 3 == "011200"[at / 3 % 6] - '0'; });
  EXPECT_NEAR(kept(OutputKind::sequence, text, shorter).first, 2. / 3, 1e-6);
  EXPECT_NEAR(kept(OutputKind::sequence, shorter, text).first, 2. / 3, 1e-6);
  // Three of the mask's four places are left.
  const Tensor mask = of({2, 8, 8}, [](int64_t at) { return at % 64 < 4 ? 0.9f : 0.1f; });
  Tensor less = mask.copy();
  less.data<float>()[64] = 0.4f;
  EXPECT_DOUBLE_EQ(kept(OutputKind::mask, mask, less).first, 0.75);
  Kept sum;
  add_kept(OutputKind::mask, {mask}, {less}, 1, sum);
  EXPECT_DOUBLE_EQ(sum.shift.mean(), -0.25);
  Tensor classes(DType::i64, {2, 4}), others(DType::i64, {2, 4}), fewer(DType::i64, {1, 4});
  for (int64_t at = 0; at < 8; ++at) classes.data<int64_t>()[at] = others.data<int64_t>()[at] = at;
  others.data<int64_t>()[5] = 9;
  EXPECT_DOUBLE_EQ(kept(OutputKind::class_map, classes, others).first, 0.75);
  EXPECT_DOUBLE_EQ(kept(OutputKind::class_map, classes, fewer).first, 0);
  Tensor words = of({2, 2, 3}, [](int64_t at) { return at % 3 == 0 ? 2.f : 0.f; }), changed = words.copy();
  changed.data<float>()[8] = 3;
  const auto [same, nats] = kept(OutputKind::tokens, words, changed);
  EXPECT_DOUBLE_EQ(same, 0.5);
  EXPECT_GT(nats, 0.1);
  // A step that is missing is an edit, of what is left without blanks, class 0; where a class begins and ends is none.
  const auto steps = [](const std::vector<int64_t>& best) {
    return of({2, 3, 4}, [&](int64_t at) { return at >= 12 && best[at / 4 - 3] == at % 4 ? 1.f : 0.f; });
  };
  EXPECT_NEAR(kept(OutputKind::sequence, steps({0, 1, 2}), steps({0, 2, 2})).first, 0.5, 1e-6);
  EXPECT_DOUBLE_EQ(kept(OutputKind::sequence, steps({1, 1, 2}), steps({1, 2, 2})).first, 1);
  EXPECT_NEAR(kept(OutputKind::sequence, steps({0, 0, 0}), steps({1, 2, 3})).first, 0, 1e-6);
  Tensor longer = exact.copy();
  for (int64_t at = 0; at < longer.elements(); ++at) longer.data<float>()[at] *= 3;
  EXPECT_DOUBLE_EQ(kept(OutputKind::embedding, exact, longer).first, 1);
  EXPECT_DOUBLE_EQ(kept(OutputKind::signal, exact, longer).first, 0);
  for (int64_t at = 0; at < longer.elements(); ++at) longer.data<float>()[at] = exact.data<float>()[at] * 1.1f;
  EXPECT_GT(kept(OutputKind::signal, exact, longer).first, 0.98);
  EXPECT_NEAR(kept(OutputKind::coordinates, exact, longer).first, 0.88, 0.03);  // deviations count, not squares
  longer.data<float>()[20] = NAN;
  EXPECT_EQ(kept(OutputKind::signal, exact, longer).first, 0) << "no number";
}

TEST(output_kind, counts_characters_by_how_sure_floating_point_is) {
  // A sure character, a blank, and one that is as likely as another; INT8 takes the other.
  const std::vector<float> exact{0, 1, 0, 1, 0, 0, 0.02f, 0.5f, 0.48f}, doubtful{0, 1, 0, 1, 0, 0, 0.02f, 0.4f, 0.58f},
      wrong{0, 0, 1, 1, 0, 0, 0.02f, 0.5f, 0.48f};
  const auto lost = [](const std::vector<float>& one, const std::vector<float>& other) {
    const auto tensor = [](const std::vector<float>& numbers) {
      return of({1, 3, 3}, [&](int64_t at) { return numbers[static_cast<size_t>(at)]; });
    };
    Kept sum;
    add_kept(OutputKind::sequence, {tensor(one)}, {tensor(other)}, 0, sum);
    return sum.lost({});
  };
  EXPECT_EQ(lost(exact, exact), 0);
  EXPECT_NEAR(lost(exact, doubtful), 0.5 * 0.02 / 0.98, 1e-6);
  EXPECT_GT(lost(exact, wrong), 0.49);
  // The change of the first would lose the second as well, and half of all changes are like it.
  EXPECT_NEAR(lost(doubtful, {0, 0.6f, 0.4f, 1, 0, 0, 0.02f, 0.4f, 0.58f}), 0.25 * 0.18 / 0.98, 1e-6);
}

}  // namespace
}  // namespace tenon::cli
