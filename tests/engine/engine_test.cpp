// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "engine/format.h"
#include "rehash.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

class EngineFile : public ::testing::Test {
 protected:
  EngineFile() : engine_(build_net(folder_, small_net())) {
    engine_.save(folder_ / "m.tenon");
    bytes_ = read_text(folder_ / "m.tenon");
  }
  std::string load_error(const std::string& bytes) {
    folder_.write("other.tenon", bytes);
    return error_of([&] { Engine::load(folder_ / "other.tenon"); });
  }
  /// What loading says of an engine with this graph, its hashes right.
  std::string graph_error(const std::string& text) {
    plan::Plan plan = plan_of(engine_);
    plan.graph = ir::parse(text);
    const Buffer bytes = engine_of(std::move(plan)).serialize();
    write_atomically(folder_ / "made.tenon", bytes.bytes());
    return error_of([&] { Engine::load(folder_ / "made.tenon"); });
  }
  std::string run(const Engine& engine, int threads = 2) {
    Session session = engine.session(threads);
    return bytes_of(session.run({{"x", random_tensor({1, 3, 8, 8}, 9)}})[0]);
  }

  Folder folder_;
  Engine engine_;
  std::string bytes_;
};

TEST_F(EngineFile, HoldsSharedWeightsOnce) {
  plan::Plan plan = plan_of(engine_);
  Tensor table(DType::f32, {64, 1024});
  for (int64_t at = 0; at < table.elements(); ++at) table.data<float>()[at] = static_cast<float>(at);
  const size_t alone = [&] {
    plan.graph.outputs.push_back(plan.graph.add_constant("first", table));
    plan.graph.output_names.push_back("first");
    return engine_of(plan).serialize().bytes().size();
  }();
  plan.graph.outputs.push_back(plan.graph.add_constant("second", table.reshaped({64, 1024, 1, 1})));
  plan.graph.output_names.push_back("second");
  const Engine both = engine_of(plan);
  EXPECT_LT(both.serialize().bytes().size(), alone + table.bytes() / 2);
  both.save(folder_ / "tied.tenon");
  const Engine again = Engine::load(folder_ / "tied.tenon");
  const plan::Plan& loaded = plan_of(again);
  const Tensor *first = loaded.graph.constant(loaded.graph.outputs[loaded.graph.outputs.size() - 2]),
               *second = loaded.graph.constant(loaded.graph.outputs.back());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(bytes_of(*first), bytes_of(*second));
  EXPECT_EQ(bytes_of(*first), bytes_of(table));
  EXPECT_EQ(first->data(), second->data());
}

TEST_F(EngineFile, ComesBackAsItWas) {
  const Engine loaded = Engine::load(folder_ / "m.tenon");
  const plan::Plan &before = plan_of(engine_), &after = plan_of(loaded);
  std::vector<Tensor> pool, other_pool;
  EXPECT_EQ(ir::print(after.graph, &other_pool), ir::print(before.graph, &pool));
  ASSERT_EQ(pool.size(), other_pool.size());
  for (size_t at = 0; at < pool.size(); ++at) EXPECT_EQ(bytes_of(pool[at]), bytes_of(other_pool[at]));
  EXPECT_EQ(after.shapes, before.shapes);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.goal.isa, before.goal.isa);
  EXPECT_EQ(run(loaded), run(engine_));
  loaded.save(folder_ / "again.tenon");
  EXPECT_EQ(read_text(folder_ / "again.tenon"), bytes_);
}

TEST_F(EngineFile, EveryFlippedBitIsFound) {
  int missed = 0;
  for (size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    std::string flipped = bytes_;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const std::string error = load_error(flipped);
    if (error.rfind("bad_engine: ", 0) != 0 && ++missed < 5)
      ADD_FAILURE() << "bit " << bit % 8 << " of byte " << bit / 8 << ": " << error;
  }
  EXPECT_EQ(missed, 0);
}

TEST_F(EngineFile, CutOffAndLengthenedFilesAreNamed) {
  for (size_t size = 0; size < bytes_.size(); ++size)
    ASSERT_EQ(load_error(bytes_.substr(0, size)).rfind("bad_engine: the engine is damaged", 0), 0u) << size;
  EXPECT_EQ(load_error(""), "bad_engine: the engine is damaged, it ends inside the header");
  EXPECT_EQ(load_error(bytes_.substr(0, 100)),
            "bad_engine: the engine is damaged, it has 100 bytes and should have " + std::to_string(bytes_.size()));
  EXPECT_EQ(load_error(bytes_ + "x"), "bad_engine: the engine is damaged, it has " + std::to_string(bytes_.size() + 1) +
                                          " bytes and should have " + std::to_string(bytes_.size()));
  EXPECT_EQ(load_error("what is this" + bytes_),
            "bad_engine: the engine is damaged, it does not begin as an engine does");
}

TEST_F(EngineFile, ANewerVersionIsNamed) {
  std::string newer = bytes_;
  newer[offsetof(engine::Header, version)] = 7;
  EXPECT_EQ(load_error(newer),
            "bad_engine: the engine was written by a newer Tenon, its format is 7, this Tenon reads " +
                std::to_string(engine::version));
}

TEST_F(EngineFile, AnOlderVersionIsNamed) {
  std::string older = bytes_;
  older[offsetof(engine::Header, version)] = 1;
  EXPECT_EQ(load_error(older),
            "bad_engine: the engine was written by an older Tenon, its format is 1, this Tenon reads " +
                std::to_string(engine::version));
}

TEST_F(EngineFile, AnUnknownPrecisionIsNamed) {
  for (const char* name : {"fp33", "best"}) {
    std::string changed = bytes_;
    const size_t at = changed.find("\"precision\":\"fp32\"");
    ASSERT_NE(at, std::string::npos);
    changed.replace(at + 13, 4, name);
    rehash(changed);
    EXPECT_EQ(load_error(changed),
              "bad_engine: the engine is damaged, no precision is called \"" + std::string(name) + "\"");
  }
}

/// A process cuts the file off, and makes it as long as before, while this one loads it.
TEST_F(EngineFile, AChangingFileIsAnErrorOrWhole) {
  const std::string path = folder_ / "changing.tenon";
  const std::string net = model(input("x", {1, 4096}) + random_weights("w", {4096, 1100}, 1) +
                                node("p", "MatMul", {"x", "w"}, {"y"}) + output("y"));
  build_net(folder_, net).save(path);
  const auto size = std::filesystem::file_size(path);
  ASSERT_GT(size, MappedFile::largest_copied);
  const pid_t child = ::fork();
  if (child == 0)
    for (unsigned round = 0;; ++round) {
      ::usleep(round * 37 % 3000);
      // The weights lie at the end: what is in front of them stays as it is.
      if (::truncate(path.c_str(), static_cast<off_t>(size * (5 + round % 4) / 8)) != 0) ::_exit(1);
    }
  int failed = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string error = error_of([&] { Engine::load(path); });
    failed += error != "none";
    EXPECT_TRUE(error == "none" || error.starts_with("bad_engine: ") || error.starts_with("io: ")) << error;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_GT(failed, 0);
}

TEST_F(EngineFile, ASessionOfAFileThatWasCutOffIsAnError) {
  const std::string net = model(input("x", {1, 4096}) + random_weights("w", {4096, 1100}, 1) +
                                node("p", "MatMul", {"x", "w"}, {"y"}) + output("y"));
  build_net(folder_, net).save(folder_ / "large.tenon");
  const Engine engine = Engine::load(folder_ / "large.tenon");
  engine.session(1);
  std::filesystem::resize_file(folder_ / "large.tenon", 4096);
  EXPECT_EQ(error_of([&] { engine.session(1); }), "io: the file was changed while it was in use");
}

TEST_F(EngineFile, AGraphMadeByHandIsChecked) {
  const std::string maps = "graph \"g\" input %x : f32[1,4,4,8] ", outputs = " output %y output %z";
  const std::string pools = maps + "%y : ?, %z : ? = tenon:MaxPools(%x) {layout=\"NHWC\", windows=[3,5";
  EXPECT_EQ(graph_error(pools + "]} from [\"p\"]" + outputs), "none");
  const std::string weights = "const %w : f32[1,8,1,1] = {1,1,1,1,1,1,1,1} ";
  const std::string conv = maps + weights + "%y : ? = Conv(%x, %w) {layout=\"NHWC\", ",
                    end = "} from [\"c\"] output %y";
  EXPECT_EQ(graph_error(conv + "activation=\"relu\"" + end), "none");
  const std::string product = "graph \"g\" input %x : f32[2,8] const %w : f32[8,1] = {1,1,1,1,1,1,1,1} ";
  const std::string bytes =
      "graph \"g\" input %x : u8[1,2,2,1] const %w : i8[2,1,1,1] = {1,1} const %s : f32[] = {1.0} "
      "const %z : u8[] = {0} const %many : f32[3] = {1.0,1.0,1.0} const %none : u8[0] = {} ";
  const std::string head =
      "graph \"g\" input %b : f32[1,2,0] input %c : f32[1,2,3] const %d : f32[0] = {} const %l : "
      "f32[2,2] = {0.0,0.0,0.0,0.0} const %s : f32[2] = {1.0,1.0} ";
  const std::pair<std::string, std::string> cases[] = {
      {pools + ",7]} from [\"p\"]" + outputs,
       "node \"p\" (tenon:MaxPools) is invalid, node p, 3 windows for 2 outputs"},
      {pools + ",4]} from [\"p\"]" + outputs, "3 windows"},
      {maps + "%y : ?, %z : ? = MaxPools(%x) from [\"p\"]" + outputs, "op MaxPools is not supported, node p"},
      {conv + "activation=\"sqrt\"" + end, "activation \"sqrt\" is not known"},
      {conv + "output_dtype=8" + end, "output_dtype is no floating type"},
      {conv + "windows=[3]" + end, "it has no attribute windows"},
      {conv + "pads=[-1,0,0,0]" + end, "pads is -1; expected at least 0"},
      {product + "const %b : f32[0] = {} %y : ? = MatMul(%x, %w, %b) from [\"m\"] output %y",
       "the bias has sizes [0] where the output has [2,1]"},
      {product + "%y : ? = MatMul(%x, %w, _, %w) {residual=\"after\"} from [\"m\"] output %y",
       "the residual is [8,1] where the output is [2,1]"},
      {bytes + "%y : ? = tenon:Int8Conv(%x, %w, _, _, %s, %z, %many) {layout=\"NHWC\"} from [\"q\"] output %y",
       "input 6 is [3], neither one number nor one for each channel"},
      {bytes + "%y : ? = tenon:Int8Conv(%x, %w, _, _, %s, %none, %s) {layout=\"NHWC\"} from [\"q\"] output %y",
       "input 5 is [0], neither one number"},
      {head + "%y : ? = tenon:BoxHead(%b, %c, %d, %l, %l, %s) {scales=1} from [\"h\"] output %y",
       "there are no distances"},
      {"graph \"g\" input %x : f32[4] %y : ? = tenon:Elementwise(%x) {program=[\"add %0 %9\"]} output %y",
       "it names a register that is not there"},
      {"graph \"g\" input %x : ? %y : ? = Abs(%x) output %y", "input \"x\" has no element type"},
      {"graph \"g\" input %x : f32[1,4] input %v : f32[0] const %p : i64[4] = {0,0,1,1} %y : ? = Pad(%x, %p, %v) from "
       "[\"p\"] output %y",
       "the padding value has 0 elements, not 1"},
      {"graph \"g\" input %c : i64[] input %x : f32[4] %y : ? = If(%c, %x) {captures=1, then_branch={graph \"t\" input "
       "%x : f32[4] %r : ? = Relu(%x) output %r}, else_branch={graph \"e\" input %x : f32[4] %r : ? = Neg(%x) output "
       "%r}} "
       "output %y",
       "the condition must be of bool, not i64"},
      {"graph \"g\" input %c : bool[] input %x : f32[4] %y : ? = If(%c, %x) {captures=1, then_branch={graph \"t\" "
       "input "
       "%x : f32[4] %r : ? = Relu(%x, %x) output %r}, else_branch={graph \"e\" input %x : f32[4] %r : ? = Neg(%x) "
       "output %r}} output %y",
       "it has 2 inputs; Relu takes 1"}};
  EXPECT_EQ(graph_error(maps + "%y : ? = acme:Swirl(%x) from [\"p\"] output %y"),
            "unsupported: the engine needs the plugin of an op, op acme:Swirl, node p");
  for (const auto& [text, why] : cases) {
    const std::string error = graph_error(text);
    EXPECT_EQ(error.rfind("bad_engine: the engine is damaged, ", 0), 0u) << error;
    EXPECT_NE(error.find(why), std::string::npos) << error << "\nnot: " << why;
  }
}

/// Records of kernels that this machine or version lacks are passed over.
TEST_F(EngineFile, AnEngineOfAnotherProcessorRuns) {
  plan::Plan plan = plan_of(engine_);
  plan.goal.isa = "avx1024";
  const ir::Graph graph = plan::concretise(plan.graph, plan.shapes);
  const plan::Layout layout = plan::lay_out(graph);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    plan.records[backends::signature(plan::problem_of(graph, id, layout, 2, plan))] = {"kernel of tomorrow", 1};
  engine_of(std::move(plan)).save(folder_ / "other.tenon");
  const Engine loaded = Engine::load(folder_ / "other.tenon");
  EXPECT_EQ(plan_of(loaded).goal.isa, "avx1024");
  EXPECT_EQ(run(loaded), run(engine_));
}

TEST_F(EngineFile, NamesMayHoldAnyBytes) {
  const std::string odd = "in\xff\xfe%41\xc3\xa9\n\"";
  const Engine engine =
      build_net(folder_, model(input(odd, {2}) + node("r\x80", "Relu", {odd}, {"y\xff"}) + output("y\xff")));
  engine.save(folder_ / "odd.tenon");
  const Engine loaded = Engine::load(folder_ / "odd.tenon");
  EXPECT_EQ(loaded.inputs()[0].name, odd);
  EXPECT_EQ(loaded.outputs()[0].name, "y\xff");
  EXPECT_EQ(plan_of(loaded).shapes.count(odd), 1u);
  EXPECT_EQ(loaded.session().run({{odd, random_tensor({2}, 1)}}).size(), 1u);
}

TEST_F(EngineFile, TwoBuildsWithOneTimingCacheAreEqual) {
  BuildOptions options;
  options.threads = 2;
  options.timing_cache = folder_ / "cache.json";
  const auto build = [&] {
    build_net(folder_, small_net(), options).save(folder_ / "built.tenon");
    return read_text(folder_ / "built.tenon");
  };
  // Times that were disturbed, as by tests beside this one, do not enter the cache, and are taken again.
  constexpr int most_tries = 100;
  std::string first, second = build();
  for (int tries = 0; tries < most_tries && first != second; ++tries) {
    first = std::move(second);
    second = build();
  }
  EXPECT_TRUE(first == second) << "each build gives another engine";
}

/// Bytes changed at random under right hashes: loading and running give an Error or a result.
TEST_F(EngineFile, AHostileEngineDoesNoHarm) {
  set_limits({.memory_bytes = 256 << 20, .loop_rounds = 1000});
  std::mt19937 random(5);
  int ran = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = bytes_;
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      // The text sections lie in front; weights are of less interest.
      const size_t at = sizeof(engine::Header) + random() % (changed.size() * 3 / 4);
      const char* const pieces[] = {"9", "-", "0", "x", "1e9", ",", "]"};
      if (random() % 2) changed[at] = static_cast<char>(random());
      else {
        const std::string piece = pieces[random() % std::size(pieces)];
        changed.replace(at, piece.size(), piece);
      }
    }
    rehash(changed);
    folder_.write("other.tenon", changed);
    const std::string error = error_of([&] {
      const Engine engine = Engine::load(folder_ / "other.tenon");
      Session session = engine.session(2);
      std::map<std::string, Tensor> inputs;
      for (const TensorInfo& info : engine.inputs()) {
        Dims dims;
        for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
        inputs[info.name] = Tensor(info.dtype, dims);
      }
      session.run(inputs);
    });
    ran += error == "none";
  }
  EXPECT_GT(ran, 100) << "too few get past the reader to tell anything";
  set_limits({});
}

}  // namespace
}  // namespace tenon
