// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "support/command.h"
#include "tenon/error.h"

namespace tenon {
namespace {

using test::Folder;
namespace fs = std::filesystem;

constexpr uid_t stranger = 12345;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string why_not(const std::string& path) {
  try {
    OpenFolder::open_private(path);
    return "";
  } catch (const Error& error) {
    return error.where() + ": " + error.why();
  }
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

TEST(PrivateFolder, IsMadeForThisUserAlone) {
  const Folder folder;
  const OpenFolder made = OpenFolder::open_private(folder / "a/./b//c");
  for (const char* part : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(folder / part), 0700u) << part;
  made.write("file", bytes_of("text"));
  EXPECT_EQ(test::read_text(folder / "a/b/c/file"), "text");
  EXPECT_EQ(made.names(), std::vector<std::string>{"file"});
}

TEST(PrivateFolder, MayNotBeWrittenToByOthers) {
  const Folder folder;
  fs::create_directories(folder / "a/b");
  ::chmod((folder / "a/b").c_str(), 0720);
  EXPECT_EQ(why_not(folder / "a/b"), (folder / "a/b") + ": other users may write to it");
  ::chmod((folder / "a/b").c_str(), 01777);
  EXPECT_EQ(why_not(folder / "a/b"), (folder / "a/b") + ": other users may write to it");
  EXPECT_EQ(why_not(folder / "a/b/c"), "") << "the sticky bit keeps others from exchanging it";
  ::chmod((folder / "a").c_str(), 0777);
  EXPECT_EQ(why_not(folder / "a/b/c"), (folder / "a") + ": other users may write to it");
}

TEST(PrivateFolder, MayNotBelongToOthers) {
  const Folder folder;
  fs::create_directories(folder / "a/b");
  fs::create_symlink("a", folder / "link");
  EXPECT_EQ(why_not(folder / "link/b"), "");
  if (::lchown((folder / "link").c_str(), stranger, stranger) != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_EQ(why_not(folder / "link/b"), (folder / "link") + ": it is a link that another user made");
  ASSERT_EQ(::chown((folder / "a").c_str(), stranger, stranger), 0);
  EXPECT_EQ(why_not(folder / "a"), (folder / "a") + ": it belongs to another user");
  EXPECT_EQ(why_not(folder / "a/b"), (folder / "a") + ": it belongs to another user");
}

TEST(PrivateFolder, EndsWhereLinksGoRound) {
  const Folder folder;
  fs::create_symlink("two", folder / "one");
  fs::create_symlink("one", folder / "two");
  EXPECT_NE(why_not(folder / "one").find("Too many levels"), std::string::npos) << why_not(folder / "one");
  folder.write("file", "");
  EXPECT_EQ(why_not(folder / "file/x"), (folder / "file") + ": it is not a folder");
}

TEST(OpenFolder, StaysTheSameWhenItsNameIsExchanged) {
  const Folder folder;
  const OpenFolder held = OpenFolder::open_private(folder / "cache");
  fs::rename(folder / "cache", folder / "moved");
  fs::create_directories(folder / "cache");
  folder.write("cache/file", "planted");
  held.write("file", bytes_of("ours"));
  EXPECT_EQ(test::read_text(folder / "moved/file"), "ours");
  EXPECT_EQ(test::read_text(folder / "cache/file"), "planted");
  const auto bytes = held.map("file")->bytes();
  EXPECT_EQ(bytes.size(), 4u);
}

TEST(OpenFolder, FollowsNoLinks) {
  const Folder folder;
  folder.write("secret", "secret");
  const OpenFolder held = OpenFolder::open_private(folder / "cache");
  for (const char* name : {"file", "lock"}) fs::create_symlink("../secret", folder / (std::string("cache/") + name));
  EXPECT_THROW(held.map("file"), Error);
  EXPECT_FALSE(held.lock_file("lock"));
  held.write("file", bytes_of("ours"));
  EXPECT_EQ(test::read_text(folder / "secret"), "secret");
  EXPECT_EQ(test::read_text(folder / "cache/file"), "ours");
}

TEST(CachePath, IsNeverRelativeToTheCurrentFolderByAccident) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    const char* const names[] = {"TENON_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    const char* const values[] = {own, xdg, home};
    std::string before[3];
    for (int at = 0; at < 3; ++at) {
      before[at] = std::getenv(names[at]) ? std::getenv(names[at]) : "";
      ::setenv(names[at], values[at], 1);
    }
    std::string path = cache_path();
    for (int at = 0; at < 3; ++at) ::setenv(names[at], before[at].c_str(), 1);
    return path;
  };
  EXPECT_EQ(with("own", "/xdg", "/home/me"), "own");
  EXPECT_EQ(with("", "/xdg", "/home/me"), "/xdg/tenon");
  EXPECT_EQ(with("", "xdg", "/home/me"), "/home/me/.cache/tenon");
  EXPECT_EQ(with("", "", "home"), "");
}

}  // namespace
}  // namespace tenon
