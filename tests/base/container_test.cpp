// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/container.h"
#include "base/cores.h"
#include "support/command.h"

namespace tenon {
namespace {

/// A tree of the files that the system shows to a process.
class Tree {
 public:
  Tree& put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
    return *this;
  }
  ContainerLimits limits() const { return container_limits(folder_.path()); }

 private:
  test::Folder folder_;
};

constexpr char mounted_2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw";

TEST(Container, NoneIsNone) {
  const ContainerLimits limits = Tree().limits();
  EXPECT_EQ(limits.version, 0);
  EXPECT_EQ(limits.cores, 0);
  EXPECT_EQ(limits.memory_bytes, 0);
}

TEST(Container, Version2AsAContainerSeesItself) {
  Tree tree;
  tree.put("proc/self/cgroup", "0::/").put("proc/self/mountinfo", mounted_2);
  tree.put("sys/fs/cgroup/cpu.max", "250000 100000").put("sys/fs/cgroup/memory.max", "4294967296");
  tree.put("sys/fs/cgroup/memory.current", "1073741824").put("sys/fs/cgroup/cpuset.cpus.effective", "0-3,8");
  const ContainerLimits limits = tree.limits();
  EXPECT_EQ(limits.version, 2);
  EXPECT_DOUBLE_EQ(limits.cores, 2.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{4} << 30);
  EXPECT_EQ(limits.free_bytes, int64_t{3} << 30);
  EXPECT_EQ(limits.cpuset, "0-3,8");
}

TEST(Container, NestedSlicesOfVersion2TheTightestCounts) {
  Tree tree;
  tree.put("proc/self/cgroup", "0::/user.slice/user-1000.slice/job.service").put("proc/self/mountinfo", mounted_2);
  const std::string top = "sys/fs/cgroup/user.slice", middle = top + "/user-1000.slice", own = middle + "/job.service";
  tree.put(own + "/cpu.max", "max 100000").put(middle + "/cpu.max", "150000 100000");
  tree.put(top + "/cpu.max", "800000 100000");
  tree.put(own + "/memory.max", "max").put(middle + "/memory.max", "2147483648");
  tree.put(middle + "/memory.current", "2147483648").put(middle + "/memory.stat", "anon 5\ninactive_file 1073741824");
  tree.put(top + "/memory.max", "8589934592").put(top + "/memory.current", "8053063680");
  const ContainerLimits limits = tree.limits();
  EXPECT_DOUBLE_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(limits.free_bytes, int64_t{512} << 20) << "of the outer slice, whose limit is wider but nearer";
}

TEST(Container, Version2WithoutLimitsHasNone) {
  Tree tree;
  tree.put("proc/self/cgroup", "0::/a").put("proc/self/mountinfo", mounted_2);
  tree.put("sys/fs/cgroup/a/cpu.max", "max 100000").put("sys/fs/cgroup/a/memory.max", "max");
  const ContainerLimits limits = tree.limits();
  EXPECT_EQ(limits.version, 2);
  EXPECT_EQ(limits.cores, 0);
  EXPECT_EQ(limits.memory_bytes, 0);
}

constexpr char mounted_1[] =
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

TEST(Container, Version1InItsOwnHierarchies) {
  Tree tree;
  tree.put("proc/self/cgroup", "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n2:cpuset:/docker/a\n1:name=systemd:/x");
  tree.put("proc/self/mountinfo", mounted_1);
  const std::string cgroup = "sys/fs/cgroup/";
  tree.put(cgroup + "cpu,cpuacct/docker/a/cpu.cfs_quota_us", "300000");
  tree.put(cgroup + "cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000");
  tree.put(cgroup + "cpu,cpuacct/cpu.cfs_quota_us", "-1").put(cgroup + "cpu,cpuacct/cpu.cfs_period_us", "100000");
  tree.put(cgroup + "memory/docker/a/memory.limit_in_bytes", "1073741824");
  tree.put(cgroup + "memory/docker/a/memory.usage_in_bytes", "268435456");
  tree.put(cgroup + "memory/memory.limit_in_bytes", "9223372036854771712");
  tree.put(cgroup + "cpuset/docker/a/cpuset.cpus", "2-5");
  const ContainerLimits limits = tree.limits();
  EXPECT_EQ(limits.version, 1);
  EXPECT_DOUBLE_EQ(limits.cores, 3);
  EXPECT_EQ(limits.memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(limits.free_bytes, int64_t{768} << 20);
  EXPECT_EQ(limits.cpuset, "2-5");
}

TEST(Container, Version1WhoseMountIsTheContainersOwnGroup) {
  Tree tree;
  tree.put("proc/self/cgroup", "4:memory:/docker/a/inner");
  tree.put("proc/self/mountinfo", "32 23 0:28 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
  tree.put("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(tree.limits().memory_bytes, int64_t{512} << 20);
}

TEST(Container, BothVersionsAtOnceShareTheControllers) {
  Tree tree;
  tree.put("proc/self/cgroup", "4:memory:/a\n0::/a");
  tree.put("proc/self/mountinfo",
           "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
           "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw");
  tree.put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912");
  tree.put("sys/fs/cgroup/unified/a/cpu.max", "100000 100000");
  const ContainerLimits limits = tree.limits();
  EXPECT_EQ(limits.memory_bytes, int64_t{512} << 20);
  EXPECT_DOUBLE_EQ(limits.cores, 1);
}

TEST(Container, CoresToUseAreTheLeastOfAll) {
  EXPECT_EQ(usable_cores(8, {}), 8);
  EXPECT_EQ(usable_cores(8, {.version = 2, .cores = 2.5}), 3);
  EXPECT_EQ(usable_cores(8, {.version = 2, .cores = 0.2}), 1);
  EXPECT_EQ(usable_cores(8, {.version = 2, .cores = 4, .cpuset = "0-1"}), 2);
  EXPECT_EQ(usable_cores(1, {.version = 2, .cores = 4, .cpuset = "0-7"}), 1);
}

TEST(Container, OfThisProcessIsRememberedForAMoment) {
  const ContainerLimits now = container_limits(), recent = recent_container_limits(), again = recent_container_limits();
  EXPECT_EQ(recent.cores, now.cores);
  EXPECT_EQ(recent.cpuset, now.cpuset);
  EXPECT_EQ(recent.memory_bytes, now.memory_bytes);
  EXPECT_EQ(again.free_bytes, recent.free_bytes);
}

TEST(Container, CountsCpusOfAList) {
  EXPECT_EQ(cpus_in("0-3,8"), 5);
  EXPECT_EQ(cpus_in("7"), 1);
  EXPECT_EQ(cpus_in(""), 0);
  EXPECT_EQ(cpus_in("3-1"), 0);
  EXPECT_EQ(cpus_in("all"), 0);
}

}  // namespace
}  // namespace tenon
