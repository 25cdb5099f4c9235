// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/hash.h"
#include "cli/signals.h"
#include "support/command.h"
#include "tenon/error.h"

namespace tenon {
namespace {

using test::Folder;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

size_t files_in(const Folder& folder) {
  const std::filesystem::directory_iterator begin(folder.path());
  return static_cast<size_t>(std::distance(std::filesystem::begin(begin), std::filesystem::end(begin)));
}

TEST(Write, KeepsTheOldFileWhenTheDiskIsFull) {
  const Folder folder;
  folder.write("file", "old");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 100;  // stands for a full disk: a part is written, then write() fails
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string text;
  try {
    write_atomically(folder / "file", bytes_of(std::string(1000, 'n')));
  } catch (const Error& error) {
    text = std::string(name(error.code())) + ": " + error.what() + ", " + error.hint();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(text, "io: cannot write the file, nothing was changed; 1000 bytes are needed");
  EXPECT_EQ(test::read_text(folder / "file"), "old");
  EXPECT_EQ(files_in(folder), 1u) << "the temporary file is left";
}

TEST(Write, FollowsALinkAndKeepsIt) {
  const Folder folder;
  folder.write("file", "old");
  std::filesystem::create_symlink("file", folder / "link");
  write_atomically(folder / "link", bytes_of("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_text(folder / "file"), "new");
}

/// Where another user may plant links, one must not lead what is written elsewhere.
TEST(Write, RefusesALinkOfAnotherUser) {
  const Folder folder;
  folder.write("file", "old");
  std::filesystem::create_symlink("file", folder / "link");
  if (::lchown((folder / "link").c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root gives files away";
  std::string text;
  try {
    write_atomically(folder / "link", bytes_of("new"));
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "the path is a link that another user made");
  EXPECT_EQ(test::read_text(folder / "file"), "old");
  EXPECT_EQ(files_in(folder), 2u);
}

TEST(Write, GivesTheModeThatANewFileGets) {
  const Folder folder;
  const mode_t before = ::umask(027);
  write_atomically(folder / "file", bytes_of("new"));
  ::umask(before);
  const auto mode = std::filesystem::status(folder / "file").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0640u);
}

TEST(Write, RemovesWhatWasNotFinished) {
  const Folder folder;
  {
    NewFile file(folder / "file");
    file.write(bytes_of("half"));
    EXPECT_EQ(test::read_text(file.temporary()), "half");
  }
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(Write, LeavesADeviceInPlace) {
  write_atomically("/dev/null", bytes_of("new"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THROW(write_atomically("/dev/full", bytes_of("new")), Error);
}

TEST(Write, TellsOfAPipeThatNobodyReadsInsteadOfWaiting) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(write_atomically(folder / "pipe", bytes_of("new")), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(Write, NeverPutsAFileInThePlaceOfAPipeInAFolder) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(OpenFolder::open(folder.path()).write("pipe", bytes_of("new")), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(Write, TakesTheLongestNameThereIs) {
  const Folder folder;
  const std::string name(255, 'n');
  write_atomically(folder / name, bytes_of("new"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / name));
}

constexpr size_t large = MappedFile::largest_copied + 4096;

/// Of holes, so that it takes no room.
void write_large(const Folder& folder, const std::string& name) {
  folder.write(name, "x");
  std::filesystem::resize_file(folder / name, large);
}

TEST(Read, AFileThatIsCutOffAfterwardsIsStillWhole) {
  const Folder folder;
  folder.write("file", std::string(8192, 'x'));
  const auto file = MappedFile::open(folder / "file");
  std::filesystem::resize_file(folder / "file", 0);
  for (const std::byte byte : file->bytes()) ASSERT_EQ(byte, std::byte{'x'});
  file->check();
}

TEST(Read, ALargeFileThatIsCutOffIsAnErrorWhereItIsReadOnce) {
  const Folder folder;
  write_large(folder, "file");
  const auto file = MappedFile::open(folder / "file");
  const uint64_t hash = file->hash(0, large);
  EXPECT_EQ(hash, hash64(file->bytes()));
  file->check();
  std::filesystem::resize_file(folder / "file", large / 2);
  std::vector<std::byte> end(16);
  EXPECT_THROW(file->hash(0, large), Error);
  EXPECT_THROW(file->read(large - end.size(), end), Error);
  EXPECT_THROW(file->check(), Error);
}

/// Another process cuts the file off again and again while this one reads it.
TEST(Read, NeverFaultsOnAFileThatChanges) {
  const Folder folder;
  write_large(folder, "file");
  const pid_t child = ::fork();
  if (child == 0)
    for (size_t round = 0;; ++round)
      if (::truncate((folder / "file").c_str(), static_cast<off_t>(round % 3 * large / 2)) != 0) ::_exit(1);
  int whole = 0, cut = 0;
  for (int round = 0; round < 200 || (cut == 0 && round < 20000); ++round) try {
      const auto file = MappedFile::open(folder / "file");
      file->hash(0, file->bytes().size());
      file->check();
      ++whole;
    } catch (const Error& error) {
      ++cut;
      ASSERT_EQ(error.code(), Code::io);
    }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_GT(cut, 0);
}

TEST(Read, SaysThatAFileWasCutOffMeanwhile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Folder folder;
  write_large(folder, "file");
  const auto cut = [&] {
    cli::watch_signals();
    const auto file = MappedFile::open(folder / "file");
    std::filesystem::resize_file(folder / "file", 0);
    volatile std::byte last = file->bytes().back();
    std::_Exit(static_cast<int>(last));
  };
  EXPECT_EXIT(cut(), ::testing::ExitedWithCode(8), "a file that was being read is gone in part");
}

}  // namespace
}  // namespace tenon
