// SPDX-License-Identifier: Apache-2.0
#include "plan/timing_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <tenon/error.h>

#include <cstdlib>
#include <filesystem>

#include "plan/timing_key.h"
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

/// A build tunes several plans of one network, also without a file.
TEST(TimingCache, KnowsAtOnceWhatWasAdded) {
  for (const bool has_file : {false, true}) {
    const Folder folder;
    TimingCache cache(has_file ? folder / "c" : "-", "avx2");
    cache.add({{"Conv", {"direct", 10, {{"winograd", 20, 2}, {"busy", 5, 0}}, 1}}, {"Relu", {"rows", 1}}});
    cache.add({{"Conv", {"stem", 12, {}, 4}}});
    ASSERT_EQ(cache.records().size(), 1u);
    const Record& record = cache.records().at("Conv");
    EXPECT_EQ(record.kernel, "direct");
    EXPECT_EQ(timed_of(record).size(), 3u);
  }
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
  ASSERT_EQ(record.candidates.size(), 4u);
  EXPECT_EQ(record.candidates[2].kernel, "winograd") << "another version's time is lost";
  EXPECT_EQ(record.candidates[2].source, 2u);
  EXPECT_EQ(record.candidates[3].kernel, "tomorrow") << "another version's kernel is lost";
}

/// Two programs whose kernels differ use one file in turn.
TEST(TimingCache, KeepsWhatTwoVersionsMeasured) {
  const Folder folder;
  add(folder, {{"Conv", {"direct", 10, {{"winograd", 20, 2}}, 1}}});
  add(folder, {{"Conv", {"winograd", 5, {{"direct", 10, 11}}, 12}}});
  const Record record = kept(folder).at("Conv");
  const Record one = current(record, {{"direct", 1}, {"winograd", 2}});
  EXPECT_EQ(one.kernel, "direct");
  EXPECT_EQ(one.candidates.size(), 1u);
  const Record other = current(record, {{"direct", 11}, {"winograd", 12}});
  EXPECT_EQ(other.kernel, "winograd");
  EXPECT_EQ(other.candidates.size(), 1u);
}

TEST(TimingCache, ForgetsTheOldestOfManyVersions) {
  const Folder folder;
  for (uint64_t source = 1; source <= 9; ++source)
    add(folder, {{"Conv", {"direct", static_cast<double>(source), {}, source}}});
  const Record record = kept(folder).at("Conv");
  EXPECT_EQ(record.source, 9u);
  ASSERT_EQ(record.candidates.size(), 3u);
  EXPECT_EQ(record.candidates[2].source, 6u);
}

TEST(TimingCache, LeavesAFileOfALaterVersionAlone) {
  const Folder folder;
  folder.write("c", "{\"version\": 99}");
  TimingCache cache(folder / "c", "avx2");
  EXPECT_EQ(cache.why_not(), (folder / "c") + ": a later version of Tenon made it");
  cache.add({{"Conv", {"direct", 1, {}, 1}}});
  EXPECT_EQ(read_text(folder / "c"), "{\"version\": 99}");
}

TEST(TimingCache, RefusesAFileOfAnotherKind) {
  const Folder folder;
  for (const char* text : {"\x08\x08model", "[1, 2]", "{\"labels\": 3}", "{\"version\": 1, \"labels\": []}"}) {
    folder.write("c", text);
    EXPECT_THROW(TimingCache(folder / "c", "avx2"), Error) << text;
    EXPECT_EQ(read_text(folder / "c"), text);
  }
  folder.write("c", "");
  EXPECT_EQ(TimingCache(folder / "c", "avx2").why_not(), "");
}

TEST(TimingCache, PassesOverFilesOfEarlierVersionsAndOtherForms) {
  const Folder folder;
  for (const char* text :
       {"{\"version\": 1, \"unknown avx2\": {\"Conv\": [\"direct\", 1, []]}}", "", "{\"version\": 2}",
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
