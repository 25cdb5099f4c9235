// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "support/net.h"

namespace tenon::plan {
namespace {

using namespace test;

Records kept(const Folder& folder) { return TimingCache(folder / "c", "avx2").records(); }
void add(const Folder& folder, const Records& records) { TimingCache(folder / "c", "avx2").add(records); }

TEST(Processor, IsUnknownWithoutAName) {
  EXPECT_EQ(processor_of("processor\t: 0\nmodel name\t: A Fast One\nmodel name\t: B\n"), "A Fast One");
  for (const char* text : {"", "model name", "model name\t:", "model name\t:\n", "model name\t: \nflags\t: x\n"})
    EXPECT_EQ(processor_of(text), "unknown") << text;
}

TEST(TimingCache, KeepsWhatWasMeasuredWithItsSource) {
  const Folder folder;
  add(folder, {{"Conv", {"direct", 1.5, {{"winograd", 2.25, 7}}, 0xfedcba9876543210u}}});
  const Records records = kept(folder);
  ASSERT_EQ(records.count("Conv"), 1u);
  const Record& record = records.at("Conv");
  EXPECT_EQ(record.kernel, "direct");
  EXPECT_EQ(record.microseconds, 1.5);
  EXPECT_EQ(record.source, 0xfedcba9876543210u);
  ASSERT_EQ(record.candidates.size(), 1u);
  EXPECT_EQ(record.candidates[0].kernel, "winograd");
  EXPECT_EQ(record.candidates[0].microseconds, 2.25);
  EXPECT_EQ(record.candidates[0].source, 7u);
}

/// Records of an engine, which anybody may have made, have no source.
TEST(TimingCache, TakesNothingThatWasNotMeasuredHere) {
  const Folder folder;
  add(folder, {{"Relu", {"rows", 1}}, {"Conv", {"direct", 1, {{"winograd", 2, 7}}}}});
  const Records records = kept(folder);
  EXPECT_EQ(records.count("Relu"), 0u);
  ASSERT_EQ(records.count("Conv"), 1u);
  EXPECT_EQ(records.at("Conv").kernel, "winograd");
  EXPECT_TRUE(records.at("Conv").candidates.empty());
}

TEST(TimingCache, KeepsKnownTimesAndTakesNewNamesAndNewSources) {
  const Folder folder;
  add(folder, {{"Conv", {"direct", 10, {{"winograd", 20, 2}, {"tomorrow", 30, 3}}, 1}}});
  add(folder, {{"Conv", {"direct", 99, {}, 1}}});
  EXPECT_EQ(kept(folder).at("Conv").microseconds, 10) << "it was known";
  add(folder, {{"Conv", {"winograd", 5, {{"direct", 10, 1}, {"stem", 12, 4}}, 22}}});
  const Record record = kept(folder).at("Conv");
  EXPECT_EQ(record.kernel, "winograd");
  EXPECT_EQ(record.source, 22u);
  ASSERT_EQ(record.candidates.size(), 3u);
  EXPECT_EQ(record.candidates[2].kernel, "tomorrow") << "another version's kernel is lost";
}

TEST(TimingCache, PassesOverFilesOfEarlierVersionsAndOtherForms) {
  const Folder folder;
  for (const char* text :
       {"{\"version\": 1, \"unknown avx2\": {\"Conv\": [\"direct\", 1, []]}}", "[", "{\"version\": 2}",
        "{\"version\": 2, \"unknown avx2\": {\"Conv\": [[\"direct\", 1, \"0\"]]}}"}) {
    folder.write("c", text);
    EXPECT_TRUE(kept(folder).empty()) << text;
  }
}

TEST(TimingCache, DoesNotWriteThroughLinks) {
  const Folder folder;
  folder.write("secret", "secret");
  std::filesystem::create_symlink("secret", folder / "c.lock");
  add(folder, {{"Conv", {"direct", 1, {}, 1}}});
  EXPECT_FALSE(std::filesystem::exists(folder / "c")) << "written though the lock is a link";
  std::filesystem::remove(folder / "c.lock");
  std::filesystem::create_symlink("secret", folder / "c");
  add(folder, {{"Conv", {"direct", 1, {}, 1}}});
  EXPECT_EQ(read_text(folder / "secret"), "secret");
  EXPECT_EQ(kept(folder).count("Conv"), 1u);
}

TEST(TimingCache, SaysWhyItsFolderIsNotUsed) {
  const Folder folder;
  std::filesystem::create_directories(folder / "open");
  ::chmod((folder / "open").c_str(), 0777);
  ::setenv("TENON_CACHE_DIR", (folder / "open").c_str(), 1);
  TimingCache cache("", "avx2");
  EXPECT_EQ(cache.why_not(), (folder / "open") + ": other users may write to it");
  cache.add({{"Conv", {"direct", 1, {}, 1}}});
  EXPECT_TRUE(std::filesystem::is_empty(folder / "open"));
  ::chmod((folder / "open").c_str(), 0755);
  EXPECT_EQ(TimingCache("", "avx2").why_not(), "");
  ::unsetenv("TENON_CACHE_DIR");
}

}  // namespace
}  // namespace tenon::plan
