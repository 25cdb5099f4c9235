// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk and packs of them: a way out and back, and damage of every kind. Needs no GPU: a kernel is
// any bytes.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backends/cuda/runtime/kernel_cache.h"
#include "backends/cuda/runtime/kernel_pack.h"
#include "base/hash.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

const cuda::KernelKey key{"text\n-DA=1\nsm_80", "12.9"}, other_key{"other text\nsm_80", "12.9"};

std::string with_hash(std::string bytes) {
  const uint64_t hash = hash64(std::as_bytes(std::span(bytes)));
  return bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
}

class KernelPack : public ::testing::Test {
 protected:
  void SetUp() override { use("one"); }
  void TearDown() override { unsetenv("TENON_CACHE_DIR"); }
  /// Another cache folder.
  void use(const std::string& cache) {
    fs::create_directories(folder_ / cache);
    fs::permissions(folder_ / cache, fs::perms::owner_all);
    setenv("TENON_CACHE_DIR", (folder_ / cache).c_str(), 1);
  }
  void add_kernel(const std::string& file, const std::string& bytes) {
    cuda::kernel_folder().write(file, std::as_bytes(std::span(bytes)));
  }
  std::string import_error() {
    return error_of([&] { cuda::import_kernels(folder_ / "pack"); });
  }
  Folder folder_;
};

TEST_F(KernelPack, ComesBackAsItWas) {
  add_kernel(key.file_name(), cuda::cached_file(key, "code"));
  add_kernel(other_key.file_name(), cuda::cached_file(other_key, std::string(5000, 'x')));
  add_kernel("f" + key.file_name().substr(1), cuda::cached_file(key, "of another name"));
  add_kernel("e" + key.file_name().substr(1), "damaged, no hash of it");
  EXPECT_EQ(cuda::export_kernels(folder_ / "pack").kernels, 2);
  use("two");
  EXPECT_EQ(cuda::import_kernels(folder_ / "pack").kernels, 2);
  EXPECT_EQ(read_text(folder_ / ("two/kernels/" + key.file_name())), cuda::cached_file(key, "code"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "two/kernels"), fs::directory_iterator()), 2);
}

TEST_F(KernelPack, RefusesAnEmptyCache) {
  EXPECT_NE(error_of([&] { cuda::export_kernels(folder_ / "pack"); }).find("no compiled kernels"), std::string::npos);
}

TEST_F(KernelPack, RefusesEveryDamagedByteAndEveryCut) {
  add_kernel(key.file_name(), cuda::cached_file(key, "code"));
  cuda::export_kernels(folder_ / "pack");
  const std::string whole = read_text(folder_ / "pack");
  use("two");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    folder_.write("pack", bytes);
    EXPECT_NE(import_error(), "none") << "byte " << at;
    folder_.write("pack", whole.substr(0, at));
    EXPECT_NE(import_error(), "none") << "cut at " << at;
  }
  EXPECT_FALSE(fs::exists(folder_ / ("two/kernels/" + key.file_name())));
}

TEST_F(KernelPack, RefusesNamesThatLeaveTheFolder) {
  std::string bytes = "TENONKRN";
  const uint32_t numbers[] = {2, 1};
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  bytes += "../../../../../../../../tmp/evil";
  const std::string code = cuda::cached_file(key, "code");
  const uint64_t size = code.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size).append(code);
  folder_.write("pack", with_hash(bytes));
  EXPECT_NE(import_error().find("kernel 0 is damaged"), std::string::npos) << import_error();
}

/// The code of one kernel never serves for another, whatever its file is called.
TEST_F(KernelPack, CodeIsTiedToWhatItWasCompiledFrom) {
  const OpenFolder folder = cuda::kernel_folder();
  add_kernel(key.file_name(), cuda::cached_file(other_key, "wrong"));
  EXPECT_EQ(cuda::find_kernel(folder, key, true), "");
  add_kernel(key.file_name(), cuda::cached_file(key, "code"));
  EXPECT_EQ(cuda::find_kernel(folder, key, false), "code");
  const cuda::KernelKey later{key.text, "13.0"};
  EXPECT_EQ(cuda::find_kernel(folder, later, false), "");
  EXPECT_EQ(cuda::find_kernel(folder, later, true), "code") << "by another compiler, where there is none here";
}

TEST_F(KernelPack, EveryDamagedByteOfAKernelIsFound) {
  const std::string whole = cuda::cached_file(key, "code");
  const auto reads = [&](const std::string& bytes) {
    return cuda::cached_kernel(key.file_name(), std::as_bytes(std::span(bytes))).has_value();
  };
  EXPECT_TRUE(reads(whole));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_FALSE(reads(bytes)) << at;
    EXPECT_FALSE(reads(whole.substr(0, at))) << at;
  }
}

TEST_F(KernelPack, IsNotPutWhereOthersMayWrite) {
  add_kernel(key.file_name(), cuda::cached_file(key, "code"));
  cuda::export_kernels(folder_ / "pack");
  use("two");
  fs::create_directories(folder_ / "two/kernels");
  fs::permissions(folder_ / "two/kernels", fs::perms::all);
  EXPECT_EQ(import_error(), "io: cannot use the folder, other users may write to it");
}

}  // namespace
}  // namespace tenon
