#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
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

TEST(Write, LeavesADeviceInPlace) {
  write_atomically("/dev/null", bytes_of("new"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THROW(write_atomically("/dev/full", bytes_of("new")), Error);
}

TEST(Read, SaysThatAFileWasCutOffMeanwhile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Folder folder;
  folder.write("file", std::string(8192, 'x'));
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
