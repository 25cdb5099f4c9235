// SPDX-License-Identifier: Apache-2.0
// Files above 16 MiB that another process cuts off while a program builds, loads and runs: an error, and no SIGBUS.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

constexpr int64_t rows = 4096, columns = 1100;
const std::string changed = "io: the file was changed while it was in use";

/// A network of weights whose elements are aligned in the file, so that they are used where they are: `rest` makes what
/// is behind them, with their name.
template <class Rest>
std::string aligned_net(const std::string& given, const Rest& rest) {
  for (std::string w = "w";; w += "w") {
    const std::string weights = random_weights(w, {rows, columns}, 1);
    const std::string net = model(given + weights + rest(w) + output("y"));
    const size_t elements = weights.size() - static_cast<size_t>(rows * columns) * 4;
    if ((net.find(weights) + elements) % 4 == 0) return net;
  }
}

/// y = rows of the weights by x: read in every run.
std::string table_net() {
  return aligned_net(input("x", {2}, i64), [](const std::string& w) { return node("g", "Gather", {w, "x"}, {"y"}); });
}

/// Weights that are packed.
std::string product_net() {
  return aligned_net(input("x", {1, rows}), [](const std::string& w) { return node("p", "MatMul", {"x", w}, {"y"}); });
}

Tensor rows_of(int64_t first, int64_t last) {
  return Tensor::of<int64_t>(DType::i64, {2}, std::vector<int64_t>{first, last});
}

/// Another process that cuts a file off to parts of it, and makes it as long as before.
class Cutter {
 public:
  explicit Cutter(const std::string& path) {
    const auto size = std::filesystem::file_size(path);
    child_ = ::fork();
    if (child_ == 0)
      for (unsigned round = 0;; ++round) {
        ::usleep(round * 37 % 3000);
        if (::truncate(path.c_str(), static_cast<off_t>(size * (5 + round % 4) / 8)) != 0) ::_exit(1);
      }
  }
  ~Cutter() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

class LostFile : public ::testing::Test {
 protected:
  const Folder folder_;
  const std::string path_ = folder_ / "m.tenon";
  void cut(const std::string& path) { std::filesystem::resize_file(path, 4096); }
};

TEST_F(LostFile, ARunThatNeedsItIsAnError) {
  build_net(folder_, table_net()).save(path_);
  ASSERT_GT(std::filesystem::file_size(path_), MappedFile::largest_copied);
  Session session = Engine::load(path_).session(2);
  const Session of_other = build_net(folder_, small_net()).session(1);
  const Tensor y = session.run({{"x", rows_of(1, rows - 1)}})[0];
  EXPECT_NE(y.data<float>()[0], 0);
  cut(path_);
  EXPECT_EQ(error_of([&] { session.run({{"x", rows_of(1, rows - 1)}}); }), changed);
  EXPECT_EQ(error_of([&] { session.run({{"x", rows_of(0, 1)}}); }), changed) << "it stays lost";
}

TEST_F(LostFile, OtherEnginesGoOn) {
  build_net(folder_, table_net()).save(path_);
  std::filesystem::copy_file(path_, folder_ / "other.tenon");
  Session session = Engine::load(path_).session(1), other = Engine::load(folder_ / "other.tenon").session(1);
  cut(path_);
  EXPECT_EQ(error_of([&] { session.run({{"x", rows_of(1, rows - 1)}}); }), changed);
  EXPECT_NE(other.run({{"x", rows_of(1, rows - 1)}})[0].data<float>()[0], 0);
}

TEST_F(LostFile, WeightsThatArePackedAreNeededNoMore) {
  build_net(folder_, product_net()).save(path_);
  Session session = Engine::load(path_).session(1);
  const Tensor x = random_tensor({1, rows}, 2);
  const std::string before = bytes_of(session.run({{"x", x}})[0]);
  cut(path_);
  EXPECT_EQ(bytes_of(session.run({{"x", x}})[0]), before);
}

TEST_F(LostFile, AnEngineThatIsSavedAgainIsAnError) {
  build_net(folder_, table_net()).save(path_);
  const Engine engine = Engine::load(path_);
  cut(path_);
  EXPECT_EQ(error_of([&] { engine.serialize(); }), changed);
  EXPECT_EQ(error_of([&] { engine.save(folder_ / "again.tenon"); }), changed);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "again.tenon"));
}

TEST_F(LostFile, ABuildIsAnError) {
  folder_.write("m.onnx", product_net());
  BuildOptions options = quick_build();
  options.budget_seconds = 1;
  options.progress = [&](const std::string&, double, double) {
    cut(folder_ / "m.onnx");
    return true;
  };
  EXPECT_EQ(error_of([&] { build(folder_ / "m.onnx", options); }), changed);
}

TEST_F(LostFile, AnEngineOfAModelThatIsCutOffIsAnError) {
  const Engine engine = build_net(folder_, table_net());
  Session session = engine.session(1);
  session.run({{"x", rows_of(0, 1)}});
  cut(folder_ / "m.onnx");
  EXPECT_EQ(error_of([&] { session.run({{"x", rows_of(0, rows - 1)}}); }), changed);
  EXPECT_EQ(error_of([&] { engine.session(1); }), changed);
  EXPECT_EQ(error_of([&] { engine.save(path_); }), changed);
  EXPECT_EQ(error_of([&] { retune(engine, quick_build()); }), changed);
}

TEST_F(LostFile, ExternalDataThatIsCutOffIsAnError) {
  const std::string weights(static_cast<size_t>(rows * columns) * 4, 'x');
  folder_.write("weights", weights);
  const std::string external = field(14, 1) + field(13, field(1, "location") + field(2, "weights"));
  std::string proto = field(1, static_cast<uint64_t>(rows)) + field(1, static_cast<uint64_t>(columns));
  const std::string net = model(input("x", {2}, i64) + field(5, proto + field(2, 1) + field(8, "w") + external) +
                                node("g", "Gather", {"w", "x"}, {"y"}) + output("y"));
  const Engine engine = build_net(folder_, net);
  Session session = engine.session(1);
  session.run({{"x", rows_of(0, 1)}});
  cut(folder_ / "weights");
  EXPECT_EQ(error_of([&] { session.run({{"x", rows_of(0, rows - 1)}}); }), changed);
  EXPECT_EQ(error_of([&] { engine.session(1); }), changed);
}

/// Indices are checked once: what another process writes to them afterwards must not be used.
TEST_F(LostFile, IndicesAreNotReadAgain) {
  constexpr int64_t picked = 9000;
  std::vector<int64_t> indices(picked), wrong(picked, int64_t{1} << 40);
  for (int64_t at = 0; at < picked; ++at) indices[static_cast<size_t>(at)] = at % rows;
  std::string net;
  for (std::string name = "i"; net.empty() || net.find(raw(indices)) % 8 != 0; name += "i")
    net = model(input("x", {1, rows}) + random_weights("w", {rows, columns}, 1) +
                tensor(name, i64, {picked}, raw(indices)) + node("p", "MatMul", {"x", "w"}, {"z"}) +
                node("g", "Gather", {"x", name}, {"y"}, integer("axis", 1)) + output("y") + output("z"));
  build_net(folder_, net).save(path_);
  const Tensor x = random_tensor({1, rows}, 2);
  for (const std::string& path : {path_, folder_ / "m.onnx"}) {
    const Engine engine = open(path, quick_build());
    Session session = engine.session(1);
    const std::string before = bytes_of(session.run({{"x", x}})[0]);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(read_text(path).find(raw(indices))));
    file << raw(wrong) << std::flush;
    EXPECT_EQ(bytes_of(session.run({{"x", x}})[0]), before);
  }
}

TEST_F(LostFile, WhileItChangesAllIsWholeOrAnError) {
  build_net(folder_, table_net()).save(path_);
  std::filesystem::copy_file(path_, folder_ / "changing.tenon");
  const std::string whole = bytes_of(Engine::load(path_).session(1).run({{"x", rows_of(1, rows - 1)}})[0]);
  const Cutter engines(folder_ / "changing.tenon"), models(folder_ / "m.onnx");
  int failed = 0;
  for (int round = 0; round < 40; ++round)
    for (const bool loads : {true, false}) {
      std::string y;
      const std::string error = error_of([&] {
        const Engine engine =
            loads ? Engine::load(folder_ / "changing.tenon") : build(folder_ / "m.onnx", quick_build());
        y = bytes_of(engine.session(1).run({{"x", rows_of(1, rows - 1)}})[0]);
      });
      failed += error != "none";
      EXPECT_TRUE(error == changed || error.starts_with("bad_engine: ") || error.starts_with("invalid_model: ") ||
                  (error == "none" && y.size() == whole.size()))
          << error;
    }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace tenon
