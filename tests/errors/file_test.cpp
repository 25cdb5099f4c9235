// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
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
  EXPECT_EQ(text, "io: cannot write the file, nothing was changed; at least 1000 bytes are needed");
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

TEST(Read, ALargeFileThatIsCutOffReadsAsZerosAndIsAnErrorAfterwards) {
  const Folder folder;
  write_large(folder, "file");
  write_large(folder, "other");
  const auto file = MappedFile::open(folder / "file"), other = MappedFile::open(folder / "other");
  std::filesystem::resize_file(folder / "file", 8192);
  EXPECT_EQ(file->bytes()[0], std::byte{'x'});
  file->check_lost();
  EXPECT_EQ(file->bytes()[large / 2], std::byte{0});
  EXPECT_EQ(file->bytes()[8192], std::byte{0});
  std::filesystem::resize_file(folder / "file", large);
  EXPECT_THROW(file->check_lost(), Error);
  other->check_lost();
  EXPECT_EQ(other->bytes()[0], std::byte{'x'});
}

/// Lets go of the page of a file that is mapped by hand.
void touch_lost_page(const Folder& folder) {
  folder.write("foreign", std::string(4096, 'x'));
  const int file = ::open((folder / "foreign").c_str(), O_RDWR);
  const auto* page = static_cast<const char*>(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  if (::ftruncate(file, 0) != 0) std::_Exit(1);
  volatile char first = *page;
  std::_Exit(first);
}

struct Lost : ::testing::Test {
  Lost() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    write_large(folder, "file");
  }
  /// The first large file of the process, cut off.
  std::shared_ptr<const MappedFile> cut_file() const {
    auto file = MappedFile::open(folder / "file");
    std::filesystem::resize_file(folder / "file", 0);
    return file;
  }
  const Folder folder;
};

TEST_F(Lost, OtherMemoryIsToldToTheHandlerThatWasThere) {
  const auto work = [&](auto install) {
    install();
    const auto file = cut_file();
    if (file->bytes().back() != std::byte{0}) std::_Exit(1);
    touch_lost_page(folder);
  };
  const auto plain = [] { std::signal(SIGBUS, [](int) { std::_Exit(41); }); };
  const auto whole = [] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) { std::_Exit(info->si_addr ? 42 : 1); };
    ::sigaction(SIGBUS, &action, nullptr);
  };
  EXPECT_EXIT(work(plain), ::testing::ExitedWithCode(41), "");
  EXPECT_EXIT(work(whole), ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(work([] { std::signal(SIGBUS, SIG_DFL); }), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(work([] { std::signal(SIGBUS, SIG_IGN); }), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(work(cli::watch_signals), ::testing::ExitedWithCode(8), "a file that was being read is gone in part");
}

TEST_F(Lost, SignalsThatAreSentDoWhatTheyDid) {
  const auto work = [&](void (*handler)(int)) {
    std::signal(SIGBUS, handler);
    const auto file = cut_file();
    std::raise(SIGBUS);
    std::_Exit(file->bytes().back() == std::byte{0} ? 43 : 1);
  };
  EXPECT_EXIT(work(SIG_IGN), ::testing::ExitedWithCode(43), "");
  EXPECT_EXIT(work(SIG_DFL), ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(Lost, NothingIsHandledWhereTheProgramDoesNotWantIt) {
  const auto work = [&] {
    ::setenv("TENON_SIGBUS", "off", 1);
    std::signal(SIGBUS, SIG_DFL);
    std::_Exit(static_cast<int>(cut_file()->bytes().back()));
  };
  EXPECT_EXIT(work(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace tenon
