// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/isa.h"
#include "cli/npy.h"
#include "support/net.h"
#include "vision/decode.h"

namespace tenon {
namespace {

constexpr int images = 8;

/// Images of one colour each, and the classes that a small classifier gives them in floating point.
struct Case {
  test::Folder folder;
  std::vector<int> classes;
  std::string precision = "int8";

  explicit Case(const std::string& model = test::small_net()) {
    Session session = test::build_net(folder, model).session();
    std::filesystem::create_directory(folder / "all");
    for (int at = 0; at < images; ++at) {
      vision::Image image(8, 8);
      Tensor input(DType::f32, {1, 3, 8, 8});
      for (int pixel = 0; pixel < 64; ++pixel)
        for (int channel = 0; channel < 3; ++channel) {
          const auto value = static_cast<uint8_t>((at * 97 + channel * (31 + 60 * at) + pixel * at) % 256);
          image.pixels[static_cast<size_t>(pixel * 3 + channel)] = value;
          input.data<float>()[channel * 64 + pixel] = static_cast<float>(value) / 255;
        }
      vision::encode_png(image, folder / ("all/" + name(at)));
      const Tensor output = session.run({{"x", input}})[0];
      const std::span<const float> scores = output.values<float>();
      classes.push_back(static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
    }
  }
  static std::string name(int at) { return std::to_string(at) + ".png"; }

  test::Outcome build(const std::vector<std::string>& more) const {
    std::vector<std::string> words{
        "build",      "m.onnx",       "-o",          "x.tenon",      "-q",
        "--data",     "all",          "--precision", precision,      "--timing-cache",
        "-",          "--calibrator", "mse",         "--preprocess", "resize=8x8,scale=1/255",
        "--max-drop", "100"};
    if (std::find(more.begin(), more.end(), "--budget") == more.end()) words.insert(words.end(), {"--budget", "0"});
    words.insert(words.end(), more.begin(), more.end());
    return test::run_tenon(folder, words);
  }
  nlohmann::json points(const std::string& labels, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"--eval", labels, "--pareto", "p.json"};
    words.insert(words.end(), more.begin(), more.end());
    const test::Outcome outcome = build(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(test::read_text(folder / "p.json"));
  }
  /// The classes with the first one wrong.
  std::vector<int> labels() const {
    std::vector<int> told = classes;
    told[0] = (told[0] + 1) % 5;
    return told;
  }
};

TEST(judge, counts_a_classifier_right_by_every_form_of_labels) {
  const Case one;
  const std::vector<int> labels = one.labels();
  std::string csv = "file,class\n", object = "{", list = "[";
  for (int at = 0; at < images; ++at) {
    const std::string number = std::to_string(labels[static_cast<size_t>(at)]), name = Case::name(at);
    csv += name + "," + number + "\r\n";
    object += (at ? ", " : "") + ("\"" + name + "\": " + number);
    list += (at ? ", " : "") + ("{\"image\": \"" + name + "\", \"class\": " + number + "}");
    std::filesystem::create_directories(one.folder / ("tree/" + number));
    std::filesystem::copy(one.folder / ("all/" + name), one.folder / ("tree/" + number + "/" + name));
  }
  one.folder.write("a.csv", csv), one.folder.write("a.json", object + "}"), one.folder.write("b.json", list + "]");
  for (const char* form : {"a.csv", "a.json", "b.json", "tree"}) {
    const nlohmann::json found = one.points(form);
    EXPECT_EQ(found["metric"], "top-1") << form;
    EXPECT_EQ(found["samples"], images) << form;
    EXPECT_DOUBLE_EQ(found["points"][0]["value"].get<double>(), 100.0 * (images - 1) / images) << form;
  }
}

TEST(judge, counts_each_image_of_a_batch_once) {
  const Case one;
  std::string csv;
  for (int at = 0; at < images; ++at)
    csv += Case::name(at) + "," + std::to_string(one.labels()[static_cast<size_t>(at)]) + "\n";
  one.folder.write("a.csv", csv);
  const nlohmann::json found = one.points("a.csv", {"--shapes", "x:3x3x8x8"});
  EXPECT_EQ(found["samples"], images);
  EXPECT_DOUBLE_EQ(found["points"][0]["value"].get<double>(), 100.0 * (images - 1) / images);
}

TEST(judge, says_that_one_image_tells_nothing_of_others) {
  const Case one;
  const nlohmann::json found = one.points("all/0.png");
  EXPECT_EQ(found["samples"], 1);
  EXPECT_EQ(found["points"][1]["interval"], (std::vector<double>{-100, 100}));
}

TEST(judge, asks_a_classifier_to_agree_with_floating_point_where_there_are_no_labels) {
  const Case one;
  const nlohmann::json found = one.points("all");
  EXPECT_EQ(found["metric"], "expected top-1 agreement with fp32");
  EXPECT_EQ(found["points"][0]["value"], 100);
  const nlohmann::json& eight = found["points"][1];
  EXPECT_DOUBLE_EQ(eight["value"].get<double>() + eight["drop"].get<double>(), 100);
  // Eight images that agree leave room for 3 in 8 that do not.
  EXPECT_GE(eight["interval"][1].get<double>(), 37.5);
}

/// x -> a convolution and its activation -> y [N,4,8,8]
std::string filter() {
  return test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w1", {4, 3, 3, 3}, 1) +
                     test::random_weights("w2", {4, 4, 1, 1}, 2) +
                     test::node("stem", "Conv", {"x", "w1"}, {"a"}, test::integers("pads", {1, 1, 1, 1})) +
                     test::node("act", "Relu", {"a"}, {"b"}) + test::node("point", "Conv", {"b", "w2"}, {"c"}) +
                     test::node("end", "Relu", {"c"}, {"y"}) + test::output("y"));
}

TEST(judge, is_asked_without_a_wish_where_there_is_data_and_time) {
  const Case one;
  std::vector<std::string> words{"build",    "m.onnx",       "-o",
                                 "x.tenon",  "-q",           "--data",
                                 "all",      "--precision",  "int8",
                                 "--budget", "200ms",        "--timing-cache",
                                 "-",        "--preprocess", "resize=8x8,scale=1/255"};
  const std::string table = "expected top-1 agreement with fp32 on 16 samples; at most ",
                    reason = "saving the images as JPEG 95 once more changes fp32's own answers by ";
  EXPECT_EQ(test::run_tenon(one.folder, words).out.find(table), std::string::npos);  // eight images are too few
  words.insert(words.end(), {"--data", "all"});
  const test::Outcome outcome = test::run_tenon(one.folder, words);
  EXPECT_NE(outcome.out.find(table), std::string::npos) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(reason), std::string::npos) << outcome.out;
  words.insert(words.end(), {"--max-error", "1"});
  EXPECT_EQ(test::run_tenon(one.folder, words).out.find("below fp32"), std::string::npos);
}

TEST(judge, lets_an_embedding_change_half_as_much_again_as_jpeg_changes_it) {
  const Case one(test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w1", {64, 3, 3, 3}, 1) +
                             test::node("stem", "Conv", {"x", "w1"}, {"a"}) +
                             test::node("mean", "GlobalAveragePool", {"a"}, {"m"}) +
                             test::node("flat", "Flatten", {"m"}, {"f"}) +
                             test::node("end", "LpNormalization", {"f"}, {"y"}) + test::output("y")));
  const test::Outcome outcome = test::run_tenon(
      one.folder, {"build", "m.onnx", "-o", "x.tenon", "-q", "--data", "all", "--data", "all", "--precision", "int8",
                   "--budget", "200ms", "--timing-cache", "-", "--preprocess", "resize=8x8,scale=1/255"});
  EXPECT_NE(outcome.out.find("cosine with fp32's embedding on 16 samples"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("; INT8 may change 1.5 times that"), std::string::npos) << outcome.out;
}

/// The words of a build of a filter whose input has no sizes behind its colours.
std::vector<std::string> of_free_sizes(const std::string& data) {
  return {"build", "free.onnx",   "-o", "x.tenon",        "-q", "--precision", "int8", "--budget",
          "0",     "--max-error", "1",  "--timing-cache", "-",  "--data",      data};
}

TEST(judge, takes_sizes_that_the_model_leaves_free_from_the_data) {
  const Case one;
  one.folder.write("free.onnx",
                   test::model(test::input("x", {-1, 3, -1, -1}) + test::random_weights("w1", {4, 3, 3, 3}, 1) +
                               test::node("stem", "Conv", {"x", "w1"}, {"a"}) + test::output("a")));
  const std::string note = "note: input \"x\" takes the sizes of the data, Nx3x8x8; others by --shapes\n";
  std::vector<std::string> words = of_free_sizes("all");
  words.insert(words.end(), {"--preprocess", "resize=8x8"});
  EXPECT_EQ(test::run_tenon(one.folder, words).err, note);
  words.insert(words.end(), {"--shapes", "x:1x3x8x8"});
  EXPECT_EQ(test::run_tenon(one.folder, words).err, "");
  words = of_free_sizes("all");
  words.insert(words.end(), {"--preprocess", "resize"});
  EXPECT_EQ(test::run_tenon(one.folder, words).err,
            "error: neither the model nor the preprocessing says how large images are\n"
            "  where:   --preprocess resize\n"
            "  you can: give it: --preprocess resize,size=WIDTHxHEIGHT\n");
  cli::write_npy(one.folder / "x.npy", test::random_tensor({4, 3, 8, 8}, 1));
  EXPECT_EQ(test::run_tenon(one.folder, of_free_sizes("x.npy")).err, note);
}

TEST(judge, calibrates_what_comes_before_sizes_that_data_decide) {
  const Case one(test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w1", {4, 3, 3, 3}, 1) +
                             test::random_weights("w2", {4, 4, 1, 1}, 2) +
                             test::node("stem", "Conv", {"x", "w1"}, {"a"}, test::integers("pads", {1, 1, 1, 1})) +
                             test::node("act", "Relu", {"a"}, {"b"}) + test::node("point", "Conv", {"b", "w2"}, {"c"}) +
                             test::node("end", "Relu", {"c"}, {"y"}) + test::node("where", "NonZero", {"y"}, {"n"}) +
                             test::output("y") + test::output("n")));
  for (const char* budget : {"0", "200ms"}) {
    const nlohmann::json found = one.points("all", {"--budget", budget, "--objective", "size"});
    ASSERT_EQ(found["points"].size(), 2) << budget;
    EXPECT_GE(found["points"][1]["int8_layers"], 1) << budget;
  }
  const test::Outcome timed = one.build({"--budget", "200ms"});
  EXPECT_EQ(timed.status, 0) << timed.err;
}

TEST(judge, measures_the_signal_of_other_outputs) {
  const Case one(filter());
  const nlohmann::json found = one.points("all");
  EXPECT_EQ(found["metric"], "share of fp32's signal in the outputs");
  const double drop = found["points"][1]["drop"];
  EXPECT_GT(drop, 0);
  EXPECT_LT(drop, 1);  // INT8 keeps about 40 dB
}

TEST(judge, measures_the_signal_of_several_outputs) {
  const Case one(test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w", {4, 3, 8, 8}, 1) +
                             test::node("all", "Conv", {"x", "w"}, {"a"}) + test::node("act", "Relu", {"a"}, {"y"}) +
                             test::node("half", "Sigmoid", {"y"}, {"z"}) + test::output("y") + test::output("z")));
  EXPECT_EQ(one.points("all")["metric"], "share of fp32's signal in the outputs, and as much of the others' limits");
}

TEST(judge, measures_one_number_a_sample_by_what_it_decides) {
  const Case one(test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w", {1, 3, 8, 8}, 1) +
                             test::node("all", "Conv", {"x", "w"}, {"a"}) + test::node("end", "Flatten", {"a"}, {"y"}) +
                             test::output("y")));
  EXPECT_EQ(one.points("all")["metric"], "expected agreement with fp32's decisions");
}

/// NumPy's form of numbers.
std::string npy(const std::string& type, const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + bytes;
}

/// What a build says of its limit, on 16 arrays that `make` makes of their numbers.
std::string limit_of(const std::string& model, const std::function<std::string(unsigned)>& make,
                     const std::string& objective = "latency") {
  const test::Folder folder;
  folder.write("m.onnx", model);
  std::filesystem::create_directory(folder / "all");
  for (unsigned at = 0; at < 16; ++at) folder.write("all/" + std::to_string(at) + ".npy", make(at));
  const test::Outcome outcome =
      test::run_tenon(folder, {"build", "m.onnx", "-o", "x.tenon", "-q", "--data", "all", "--precision", "int8",
                               "--budget", "200ms", "--timing-cache", "-", "--objective", objective});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome.out;
}

/// An image of few bits a number, as an array.
std::string levels(unsigned seed) {
  Tensor image = test::random_tensor({1, 3, 8, 8}, seed);
  for (int64_t at = 0; at < image.elements(); ++at)
    image.data<float>()[at] = std::round((image.data<float>()[at] + 0.5f) * 20) / 20;
  return npy("<f4", "1, 3, 8, 8", test::bytes_of(image));
}

TEST(judge, says_what_rounded_weights_lose_without_time_and_with_few_samples) {
  const test::Folder folder;
  folder.write("m.onnx", test::model(test::input("x", {1, 128}) + test::random_weights("w", {128, 128}, 1) +
                                     test::node("all", "MatMul", {"x", "w"}, {"y"}) + test::output("y")));
  std::filesystem::create_directory(folder / "all");
  for (unsigned at = 0; at < 3; ++at)
    folder.write("all/" + std::to_string(at) + ".npy",
                 npy("<f4", "1, 128", test::bytes_of(test::random_tensor({1, 128}, at))));
  const test::Outcome outcome = test::run_tenon(folder, {"build", "m.onnx", "-o", "x.tenon", "-q", "--weights", "int4",
                                                         "--data", "all", "--budget", "0", "--timing-cache", "-"});
  EXPECT_NE(outcome.out.find("on 3 samples"), std::string::npos) << outcome.out << outcome.err;
}

TEST(judge, measures_the_jitter_of_arrays_by_their_last_bit) {
  const std::string said = limit_of(filter(), levels);
  EXPECT_EQ(said.find("share of fp32's signal in the outputs on 16 samples; at most "), 0u) << said;
  const std::string reason = "noise in the last bit of the data changes fp32's own answers by ";
  ASSERT_NE(said.find(reason), std::string::npos) << said;
  EXPECT_GT(std::stod(said.substr(said.find(reason) + reason.size())), 0) << said;
}

TEST(judge, says_by_what_the_scales_were_chosen) {
  const std::string said = limit_of(test::small_net(), levels, "size");
  const size_t at = said.find("; scales are ");
  ASSERT_NE(at, std::string::npos) << said;
  const size_t taken = said.find("they lose ", at), other = said.find(", those ", at);
  ASSERT_NE(other, std::string::npos) << said;
  const double least = std::stod(said.substr(taken + 10));
  EXPECT_LE(least, std::stod(said.substr(said.find_first_of("0123456789", other)))) << said;
}

TEST(judge, counts_the_classes_of_positions_where_there_is_a_map_of_them) {
  const std::string said =
      limit_of(test::model(test::input("x", {-1, 3, 8, 8}) + test::random_weights("w1", {8, 3, 3, 3}, 1) +
                           test::random_weights("w2", {8, 8, 3, 3}, 2) + test::random_weights("w3", {6, 8, 1, 1}, 3) +
                           test::node("stem", "Conv", {"x", "w1"}, {"a"}, test::integers("pads", {1, 1, 1, 1})) +
                           test::node("act", "Relu", {"a"}, {"b"}) +
                           test::node("next", "Conv", {"b", "w2"}, {"c"}, test::integers("pads", {1, 1, 1, 1})) +
                           test::node("again", "Relu", {"c"}, {"d"}) + test::node("point", "Conv", {"d", "w3"}, {"e"}) +
                           test::node("share", "Softmax", {"e"}, {"y"}, test::integer("axis", 1)) + test::output("y")),
               levels);
  EXPECT_NE(said.find("share of positions with fp32's class on 16 samples; at most "), std::string::npos) << said;
}

/// Four words of fifty.
std::string ids(unsigned at) {
  std::vector<int64_t> four;
  for (unsigned place = 0; place < 4; ++place) four.push_back((at * 7 + place * place * 3) % 50);
  return npy("<i8", "1, 4", {reinterpret_cast<const char*>(four.data()), 32});
}

TEST(judge, bounds_what_tokens_may_change_where_there_is_no_jitter) {
  const std::string words = test::input("x", {-1, 4}, test::i64) + test::random_weights("words", {50, 16}, 1) +
                            test::random_weights("w1", {16, 16}, 2) +
                            test::node("look", "Gather", {"words", "x"}, {"a"}) +
                            test::node("mix", "MatMul", {"a", "w1"}, {"b"}) + test::node("act", "Relu", {"b"}, {"c"});
  const std::string said = limit_of(test::model(words + test::random_weights("w2", {16, 2000}, 3) +
                                                test::node("out", "MatMul", {"c", "w2"}, {"y"}) + test::output("y")),
                                    ids);
  EXPECT_NE(said.find("share of fp32's most likely tokens on 16 samples; at most 1 "), std::string::npos) << said;
  EXPECT_NE(said.find("inputs without floats have no jitter; 1 may always be lost"), std::string::npos) << said;
  const std::string vectors = limit_of(
      test::model(
          words + test::random_weights("w2", {16, 64}, 3) + test::node("out", "MatMul", {"c", "w2"}, {"d"}) +
          test::node("mean", "ReduceMean", {"d"}, {"e"}, test::integers("axes", {1}) + test::integer("keepdims", 0)) +
          test::node("norm", "LpNormalization", {"e"}, {"y"}) + test::output("y")),
      ids);
  EXPECT_NE(vectors.find("cosine with fp32's embedding on 16 samples; at most 0.25 "), std::string::npos) << vectors;
}

TEST(judge, refuses_labels_for_what_is_no_classifier) {
  const Case one(filter());
  one.folder.write("a.csv", "0.png,1\n");
  const test::Outcome outcome = one.build({"--eval", "a.csv"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("the labels are classes, and the model is neither a detector nor a classifier"),
            std::string::npos)
      << outcome.err;
}

/// What layers in floating point are in, point by point.
std::vector<std::string> rests(const nlohmann::json& search) {
  std::vector<std::string> found;
  for (const nlohmann::json& point : search["points"]) found.push_back(point["rest"]);
  return found;
}

TEST(judge, tries_bf16_for_the_best_precision_where_the_processor_has_it) {
  if (!cpu::has_bf16_dot(cpu::active_isa())) GTEST_SKIP() << "this processor does not multiply bf16";
  Case one;
  one.precision = "best";
  one.folder.write("a.csv", "file,class\n0.png," + std::to_string(one.classes[0]) + "\n");
  const nlohmann::json search = one.points("a.csv", {"--budget", "20s"});
  const std::vector<std::string> timed = rests(search);
  ASSERT_GT(timed.size(), 1u);
  EXPECT_EQ(timed[0], "fp32");
  EXPECT_EQ(timed[1], "bf16");
  for (const nlohmann::json& point : search["points"]) EXPECT_GT(point["ms"], 0);
  // Without time to measure it is not known to be faster; and a layer held in fp32 is no layer in bf16.
  const std::vector<std::string> untimed, held{"--budget", "20s", "--keep", "point=fp32"};
  for (const auto& more : {untimed, held}) {
    const std::vector<std::string> others = rests(one.points("a.csv", more));
    EXPECT_EQ(std::count(others.begin(), others.end(), "fp32"), std::ssize(others));
  }
}

/// Its bits are the same on processors without bf16.
TEST(judge, leaves_an_engine_in_int8_to_int8_and_fp32) {
  const Case one;
  one.folder.write("a.csv", "file,class\n0.png," + std::to_string(one.classes[0]) + "\n");
  const std::vector<std::string> found = rests(one.points("a.csv", {"--budget", "20s"}));
  EXPECT_EQ(std::count(found.begin(), found.end(), "fp32"), std::ssize(found));
}

}  // namespace
}  // namespace tenon
