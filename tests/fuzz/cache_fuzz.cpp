// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_cache.h"
#include "support/net.h"
#include "target.h"

/// A timing cache: whatever it holds, builds go on, and afterwards it holds what they measured, unless it is a file of
/// another kind or of a later version, which are left alone.
namespace tenon::fuzz {

std::vector<std::string> seeds() {
  const test::Folder folder;
  plan::TimingCache(folder / "c", "avx2")
      .add({{"Conv f32:1x2", {"direct", 1.5, {}, 1}}, {"Relu", {"rows", 2, {{"loops", 3, 2}}, 1}}});
  return {test::read_text(folder / "c"), "{\"version\": 2}", "{\"version\": 2, \"unknown avx2\": []}",
          "{\"version\": 20}", ""};
}

void eat(std::span<const uint8_t> bytes) {
  static const test::Folder folder;
  folder.write("c", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  plan::TimingCache cache(folder / "c", "avx2");
  if (!cache.why_not().empty()) return;
  cache.add({{"Relu f32:7", {"rows", 2, {}, 1}}});
  if (plan::TimingCache(folder / "c", "avx2").records().count("Relu f32:7") == 0)
    throw std::logic_error("the cache lost a record");
}

}  // namespace tenon::fuzz
