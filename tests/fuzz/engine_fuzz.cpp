// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "../engine/rehash.h"
#include "engine/engine.h"
#include "support/loops.h"
#include "support/net.h"
#include "support/op_graphs.h"
#include "target.h"

/// An engine file, its hashes set right where its frame is whole, so that what is inside is reached.
namespace tenon::fuzz {

using namespace test;

std::vector<std::string> seeds() {
  const Folder folder;
  std::vector<std::string> files;
  for (int64_t batch : {-1, 2}) {
    build_net(folder, small_net(batch)).save(folder / "m.tenon");
    files.push_back(read_text(folder / "m.tenon"));
  }
  BuildOptions options = quick_build();
  for (const int64_t best : {2, 6})
    options.profiles.push_back({"p" + std::to_string(best),
                                {{"x", {1, 3, 8, 8}}},
                                {{"x", {best, 3, 8, 8}}},
                                {{"x", {best + 1, 3, 8, 8}}}});
  build_net(folder, small_net(), options).save(folder / "m.tenon");
  files.push_back(read_text(folder / "m.tenon"));
  options.profiles.clear();
  options.state = {{"b", "x"}};
  const std::string loop = model(input("x", {-1, 4}) + node("a", "Relu", {"x"}, {"b"}) + output("b"));
  build_net(folder, loop, options).save(folder / "m.tenon");
  files.push_back(read_text(folder / "m.tenon"));
  build_net(folder, loop_net(8, 3)).save(folder / "m.tenon");
  files.push_back(read_text(folder / "m.tenon"));
  build_net(folder, small_net()).save(folder / "m.tenon");
  const Engine base = Engine::load(folder / "m.tenon");
  std::mt19937_64 random(1);
  for (const ops::OpDef* op : ops::all()) {
    plan::Plan plan = plan_of(base);
    plan.graph = random_graph(*op, random);
    const Buffer file = engine_of(std::move(plan)).serialize();
    files.emplace_back(reinterpret_cast<const char*>(file.data()), file.size());
  }
  return files;
}

void eat(std::span<const uint8_t> bytes) {
  static const Folder folder;
  std::string file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  rehash(file);
  folder.write("m.tenon", file);
  const Engine engine = Engine::load(folder / "m.tenon");
  Session session = engine.session(1);
  // Sizes that it was made for, and others, which are evaluated from its steps.
  for (const int64_t open : {1, 2, 3}) {
    std::map<std::string, Tensor> inputs;
    for (const TensorInfo& info : engine.inputs()) {
      Dims dims;
      for (int64_t size : info.shape) dims.push_back(size < 0 ? open : size);
      inputs[info.name] = Tensor(info.dtype, dims);
    }
    session.run(inputs);
  }
  if (engine.carried().empty()) return;
  State state = engine.state();
  for (int round = 0; round < 2; ++round) session.run({}, state);
}

}  // namespace tenon::fuzz
