// Packs of compiled kernels: a way out and back, and damage of every kind. Needs no GPU: a kernel is any bytes with
// their hash.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backends/cuda/kernel_pack.h"
#include "base/hash.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::string name = "0123456789abcdef0123456789abcdef";

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
    setenv("TENON_CACHE_DIR", (folder_ / cache).c_str(), 1);
  }
  void add_kernel(const std::string& cache, const std::string& file, const std::string& bytes) {
    fs::create_directories(folder_ / (cache + "/kernels"));
    fs::permissions(folder_ / (cache + "/kernels"), fs::perms::owner_all);
    folder_.write(cache + "/kernels/" + file, bytes);
  }
  std::string import_error() {
    return error_of([&] { cuda::import_kernels(folder_ / "pack"); });
  }
  Folder folder_;
};

TEST_F(KernelPack, ComesBackAsItWas) {
  add_kernel("one", name + ".cubin", with_hash("code"));
  add_kernel("one", "f" + name.substr(1) + ".cubin", with_hash(std::string(5000, 'x')));
  add_kernel("one", name.substr(2) + ".cubin", with_hash("a name that is too short"));
  add_kernel("one", "e" + name.substr(1) + ".cubin", "damaged, no hash of it");
  EXPECT_EQ(cuda::export_kernels(folder_ / "pack").kernels, 2);
  use("two");
  EXPECT_EQ(cuda::import_kernels(folder_ / "pack").kernels, 2);
  EXPECT_EQ(read_text(folder_ / ("two/kernels/" + name + ".cubin")), with_hash("code"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "two/kernels"), fs::directory_iterator()), 2);
}

TEST_F(KernelPack, RefusesAnEmptyCache) {
  EXPECT_NE(error_of([&] { cuda::export_kernels(folder_ / "pack"); }).find("no compiled kernels"), std::string::npos);
}

TEST_F(KernelPack, RefusesEveryDamagedByteAndEveryCut) {
  add_kernel("one", name + ".cubin", with_hash("code"));
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
  EXPECT_FALSE(fs::exists(folder_ / ("two/kernels/" + name + ".cubin")));
}

TEST_F(KernelPack, RefusesNamesThatLeaveTheFolder) {
  std::string bytes = "TENONKRN";
  const uint32_t numbers[] = {1, 1};
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  bytes += "../../../../../../../../tmp/evil";
  const std::string code = with_hash("code");
  const uint64_t size = code.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size).append(code);
  folder_.write("pack", with_hash(bytes));
  EXPECT_NE(import_error().find("kernel 0 is damaged"), std::string::npos) << import_error();
}

}  // namespace
}  // namespace tenon
