// SPDX-License-Identifier: Apache-2.0
// Custom ops: the plugin of samples/custom_op, and files that are none.
#include <gtest/gtest.h>
#include <tenon/plugin.h>

#include <cmath>

#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

std::string real(const char* name, float value) {
  return field(
      5, field(1, name) + varint(2 << 3 | 5) + std::string(reinterpret_cast<const char*>(&value), 4) + field(20, 1));
}

/// x -> Relu -> ClipNorm -> Neg -> y
std::string net(const std::string& attributes) {
  return model(input("x", {-1, 4}) + node("first", "Relu", {"x"}, {"a"}) +
                   node("clip", "ClipNorm", {"a"}, {"b"}, attributes + field(7, "example.custom")) +
                   node("last", "Neg", {"b"}, {"y"}) + output("y"),
               field(8, field(1, "example.custom") + field(2, 1)));
}

TEST(Plugin, ItsOpsAreBuiltSavedLoadedAndRun) {
  const Folder folder;
  EXPECT_NE(error_of([&] { build_net(folder, net(real("limit", 2))); }).find("example.custom:ClipNorm x1 ('clip')"),
            std::string::npos);
  load_plugin(TENON_CLIP_NORM);
  load_plugin(TENON_CLIP_NORM);
  const Engine engine = load(build_net(folder, net(real("limit", 2))).serialize());
  EXPECT_EQ(engine.outputs()[0].shape, (std::vector<int64_t>{-1, 4}));
  Session session = engine.session();
  for (const int64_t rows : {3, 5}) {
    Tensor x = random_tensor({rows, 4}, 1);
    for (int64_t at = 0; at < x.elements(); ++at)
      x.data<float>()[at] = std::abs(x.data<float>()[at]) * (at < 4 ? 10 : 1);
    const Tensor y = session.run({{"x", x}})[0];
    ASSERT_EQ(y.dims(), (Dims{rows, 4}));
    for (int64_t row = 0; row < rows; ++row) {
      const float* in = x.data<float>() + row * 4;
      double norm = 0;
      for (int at = 0; at < 4; ++at) norm += static_cast<double>(in[at]) * in[at];
      const double scale = std::min(1.0, 2 / std::sqrt(norm));
      for (int at = 0; at < 4; ++at) EXPECT_NEAR(y.data<float>()[row * 4 + at], -in[at] * scale, 1e-6) << row;
    }
  }
}

TEST(Plugin, ItsRefusalNamesTheNode) {
  const Folder folder;
  load_plugin(TENON_CLIP_NORM);
  try {
    build_net(folder, net(""));
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_model);
    EXPECT_EQ(error.why(), "it needs a positive attribute \"limit\"");
    EXPECT_EQ(error.node(), "clip");
  }
}

TEST(Plugin, FilesThatAreNoneAreRefused) {
  const Folder folder;
  folder.write("text.so", "no library");
  EXPECT_EQ(error_of([&] { load_plugin(folder / "missing.so"); }), "io: cannot open the plugin, there is no such file");
  EXPECT_EQ(error_of([&] { load_plugin(folder / "text.so"); }).rfind("io: cannot load the plugin, ", 0), 0u);
  EXPECT_EQ(error_of([] { load_plugin("/lib/x86_64-linux-gnu/libm.so.6"); }),
            "unsupported: the file is no plugin, it has no function tenon_plugin");
  EXPECT_EQ(
      error_of([] { load_plugin(TENON_ODD_PLUGIN); }),
      "unsupported: the plugin cannot be used, the op tenon:Mine of a plugin cannot be added, the domain is not the "
      "plugin's");
}

}  // namespace
}  // namespace tenon
