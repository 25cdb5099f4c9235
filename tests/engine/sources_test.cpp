// SPDX-License-Identifier: Apache-2.0
// Models and engines from memory and from open files; loggers and limits of engines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

std::span<const std::byte> bytes_in(const std::string& text) { return std::as_bytes(std::span(text)); }

class Sources : public ::testing::Test {
 protected:
  Folder folder_;
  std::string model_ = small_net();
  Tensor x_ = random_tensor({2, 3, 8, 8}, 1);
  std::string expected_ = result(build_net(folder_, model_));

  std::string result(const Engine& engine) const { return bytes_of(engine.session().run({{"x", x_}})[0]); }
};

struct OpenFile {
  int descriptor;
  ~OpenFile() { ::close(descriptor); }
};

TEST_F(Sources, ModelsInMemoryThatGoes) {
  auto bytes = std::make_unique<std::string>(model_);
  const Engine engine = build(bytes_in(*bytes), quick_build());
  std::fill(bytes->begin(), bytes->end(), '\xff');
  bytes.reset();
  EXPECT_TRUE(result(engine) == expected_);
}

TEST_F(Sources, ModelsInMemoryThatIsKept) {
  const auto owner = std::make_shared<std::string>(model_);
  {
    const Engine engine = build(Buffer(owner->data(), owner->size(), owner), quick_build());
    EXPECT_GT(owner.use_count(), 1) << "weights are views";
    EXPECT_TRUE(result(engine) == expected_);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(Sources, ModelsOfOpenFiles) {
  folder_.write("m.onnx", model_);
  const OpenFile file{::open((folder_ / "m.onnx").c_str(), O_RDONLY)};
  ::lseek(file.descriptor, 5, SEEK_SET);
  EXPECT_TRUE(result(build_fd(file.descriptor, quick_build())) == expected_);
  EXPECT_EQ(::fcntl(file.descriptor, F_GETFD), 0) << "stays open";
}

TEST_F(Sources, ModelsOfPipes) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const OpenFile from{ends[0]};
  std::thread writer([&] {
    for (size_t at = 0; at < model_.size(); at += 100) {
      const size_t count = std::min<size_t>(100, model_.size() - at);
      EXPECT_EQ(::write(ends[1], model_.data() + at, count), static_cast<ssize_t>(count));
    }
    ::close(ends[1]);
  });
  const Engine engine = build_fd(from.descriptor, quick_build());
  writer.join();
  EXPECT_TRUE(result(engine) == expected_);
}

TEST_F(Sources, DescriptorsThatCannotBeRead) {
  EXPECT_EQ(error_of([] { build_fd(-1); }), "io: cannot read the open file, Bad file descriptor");
  EXPECT_EQ(error_of([] { load_fd(-1); }), "io: cannot read the open file, Bad file descriptor");
  const OpenFile folder{::open("/", O_RDONLY | O_DIRECTORY)};
  EXPECT_NE(error_of([&] { load_fd(folder.descriptor); }).find("io: "), std::string::npos);
}

TEST_F(Sources, EnginesInMemory) {
  const Engine engine = build(bytes_in(model_), quick_build());
  const Buffer bytes = engine.serialize();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % Buffer::alignment, 0u);
  engine.save(folder_ / "m.tenon");
  const std::string file = read_text(folder_ / "m.tenon");
  EXPECT_TRUE(file == std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  EXPECT_TRUE(result(load(bytes)) == expected_);
  // Memory of the caller at an odd address, which goes.
  auto odd = std::make_unique<std::string>(" " + file);
  const Engine copied = load(bytes_in(*odd).subspan(1));
  std::fill(odd->begin(), odd->end(), '\0');
  odd.reset();
  EXPECT_TRUE(result(copied) == expected_);
}

TEST_F(Sources, EnginesInMemoryThatIsKept) {
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  const auto owner = std::make_shared<int>();
  {
    const Engine engine = load(Buffer(bytes.data(), bytes.size(), owner));
    EXPECT_GT(owner.use_count(), 1);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(Sources, EnginesOfAnonymousFiles) {
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  const OpenFile file{::memfd_create("engine", MFD_CLOEXEC)};
  ASSERT_EQ(::write(file.descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(result(load_fd(file.descriptor)) == expected_);
}

TEST_F(Sources, DamageInMemoryIsFound) {
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text[text.size() / 2] ^= 1;
  EXPECT_EQ(error_of([&] { load(bytes_in(text)); }).substr(0, 33), "bad_engine: the engine is damaged");
  EXPECT_NE(error_of([&] { load(std::span<const std::byte>()); }).find("it ends inside the header"), std::string::npos);
  EXPECT_EQ(error_of([&] { build(bytes_in(text)); }).substr(0, 14), "invalid_model:");
}

TEST_F(Sources, ExternalDataOfAModelInMemoryNeedsARoot) {
  folder_.write("w.bin", raw(std::vector<float>{1, 2, 3, 4}));
  const std::string weights = field(5, field(1, 4) + field(2, f32) + field(8, "w") +
                                           field(13, field(1, "location") + field(2, "w.bin")) + field(14, 1));
  const std::string net = model(input("x", {2, 4}) + weights + node("s", "Add", {"x", "w"}, {"y"}) + output("y"));
  EXPECT_EQ(error_of([&] { build(bytes_in(net), quick_build()); }),
            "invalid_model: external data is refused, the model has no folder");
  BuildOptions options = quick_build();
  options.external_root = folder_.path();
  const Tensor zeros(DType::f32, {2, 4});
  EXPECT_EQ(build(bytes_in(net), options).session().run({{"x", zeros}})[0].data<float>()[6], 3);
}

struct Told {
  std::vector<std::pair<Severity, std::string>> lines;
  Logger logger(Severity least) {
    return Logger([this](Severity severity, std::string_view text) { lines.emplace_back(severity, text); }, least);
  }
  int count(Severity severity) const {
    int found = 0;
    for (const auto& line : lines) found += line.first == severity;
    return found;
  }
};

TEST_F(Sources, LoggersAreToldWhatMatters) {
  Told told, quiet;
  BuildOptions options = quick_build();
  options.logger = told.logger(Severity::verbose);
  const Engine engine = build(bytes_in(model_), options);
  EXPECT_GT(told.count(Severity::info), 0);
  EXPECT_EQ(told.count(Severity::verbose), 0);
  engine.session();
  EXPECT_EQ(told.count(Severity::verbose), 1) << "sessions use the engine's logger";
  options.logger = quiet.logger(Severity::error);
  build(bytes_in(model_), options);
  EXPECT_TRUE(quiet.lines.empty());
  EXPECT_NE(error_of([&] { build(bytes_in("nothing"), options); }), "none");
  ASSERT_EQ(quiet.lines.size(), 1u);
  EXPECT_EQ(quiet.lines[0].first, Severity::error);
  EXPECT_NE(quiet.lines[0].second.find("not a well-formed"), std::string::npos);
}

TEST_F(Sources, LoadsAreLoggedAndSinksMayThrow) {
  Told told;
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  load(bytes, {.logger = told.logger(Severity::info)}).session();
  EXPECT_EQ(told.lines.size(), 1u);
  const Logger broken([](Severity, std::string_view) { throw 1; }, Severity::verbose);
  EXPECT_TRUE(result(load(bytes, {.logger = broken})) == expected_);
}

TEST_F(Sources, LimitsOfAnEngineHoldForIt) {
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  const Engine limited = load(bytes, {.limits = Limits{.memory_bytes = 1 << 20}}), free = load(bytes);
  const Tensor many(DType::f32, {2000, 3, 8, 8});
  const auto run = [&](const Engine& engine) { return error_of([&] { engine.session().run({{"x", many}}); }); };
  EXPECT_EQ(run(limited).rfind("resource: the model needs more memory than the limit allows", 0), 0u) << run(limited);
  EXPECT_EQ(run(free), "none");
  EXPECT_TRUE(result(limited) == expected_) << "what is small still runs";
  EXPECT_EQ(error_of([&] { load(bytes, {.limits = Limits{.memory_bytes = -1}}); }),
            "usage: a limit of memory is negative");
}

/// Memory that an engine's sessions gave back can be taken again.
TEST_F(Sources, LimitsAreOfAllSessionsTogether) {
  const Buffer bytes = build(bytes_in(model_), quick_build()).serialize();
  const Engine engine = load(bytes, {.limits = Limits{.memory_bytes = 1 << 20}});
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<Session> held;
    const std::string error = error_of([&] {
      for (int at = 0; at < 1000; ++at) held.push_back(engine.session(1, {{"x", {100, 3, 8, 8}}}));
    });
    EXPECT_EQ(error.rfind("resource: ", 0), 0u) << error;
    EXPECT_GT(held.size(), 0u);
  }
}

TEST_F(Sources, LoopRoundsOfAnEngine) {
  BuildOptions options = quick_build();
  options.limits = Limits{.loop_rounds = 0};
  EXPECT_EQ(error_of([&] { build(bytes_in(model_), options); }), "usage: at least one iteration must be allowed");
}

}  // namespace
}  // namespace tenon
