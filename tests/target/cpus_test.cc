#include "tessera/machine/target/cpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/machine/target/processors.h"

namespace tessera::target {
namespace {

namespace fs = std::filesystem;

class CacheFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("tessera_caches_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void add(int index, const char* level, const char* type, const char* size, const char* sharers,
           const char* line) {
    const fs::path entry = folder_ / ("index" + std::to_string(index));
    fs::create_directories(entry);
    std::ofstream(entry / "level") << level << '\n';
    std::ofstream(entry / "type") << type << '\n';
    std::ofstream(entry / "size") << size << '\n';
    std::ofstream(entry / "shared_cpu_list") << sharers << '\n';
    std::ofstream(entry / "coherency_line_size") << line << '\n';
  }

  fs::path folder_;
};

TEST_F(CacheFolder, OrdinaryServer) {
  add(0, "1", "Data", "48K", "0,64", "64");
  add(1, "1", "Instruction", "32K", "0,64", "64");
  add(2, "2", "Unified", "2048K", "0,64", "64");
  add(3, "3", "Unified", "105M", "0-95", "64");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l1_bytes, 48 << 10);
  EXPECT_EQ(caches.l2_bytes, 2 << 20);
  EXPECT_EQ(caches.l3_bytes, 105 << 20);
  EXPECT_EQ(caches.line_bytes, 64);
}

TEST_F(CacheFolder, ClusterSharesItsSecondLevel) {
  add(0, "1", "Data", "128K", "4", "128");
  add(1, "2", "Unified", "12M", "4-7", "128");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l2_bytes, 3 << 20);
  EXPECT_EQ(caches.l3_bytes, 0);
  EXPECT_EQ(caches.line_bytes, 128);
}

TEST_F(CacheFolder, NonsenseAndAbsenceGiveZero) {
  EXPECT_EQ(read_caches((folder_ / "absent").string()).l1_bytes, 0);
  add(0, "1", "Data", "lots", "x-y", "");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l1_bytes, 0);
  EXPECT_EQ(caches.line_bytes, 64);
}

TEST(CpuList, Counts) {
  EXPECT_EQ(count_cpu_list("0"), 1);
  EXPECT_EQ(count_cpu_list("0-3,8,10-11"), 7);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_EQ(count_cpu_list("a"), 0);
  EXPECT_EQ(count_cpu_list("3-1"), 0);
  EXPECT_EQ(count_cpu_list("1;2"), 0);
  EXPECT_EQ(count_cpu_list("0-2147483647"), 0);
}

// A root folder with files like those below /proc and /sys.
class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) / (std::string("tessera_root_") + info->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void add(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void add_cpu(int cpu, const std::string& file, const std::string& text) {
    add("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file, text);
  }
  CpuOrder order(std::vector<int> cpus) const {
    return order_cpus(root_.string(), std::move(cpus));
  }
  int quota() const { return cpu_quota(root_.string()); }
  std::int64_t memory() const { return memory_limit(root_.string()); }

  fs::path root_;
};

TEST_F(FakeRoot, NothingKnownKeepsTheOrder) {
  const CpuOrder known = order({2, 3, 5});
  EXPECT_EQ(known.cpus, (std::vector<int>{2, 3, 5}));
  EXPECT_EQ(known.cores, 3);
  EXPECT_EQ(quota(), 0);
}

TEST_F(FakeRoot, OneThreadOfEachCoreFirst) {
  for (const int cpu : {0, 1, 2, 3}) {
    add_cpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2,3");
  }
  EXPECT_EQ(order({0, 1, 2, 3}).cpus, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(order({0, 1, 2, 3}).cores, 2);
  // The first thread of a core may be forbidden.
  EXPECT_EQ(order({1, 2, 3}).cpus, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(order({1, 2, 3}).cores, 2);
}

TEST_F(FakeRoot, BigCoresFirstAndSlowOnesLeftOut) {
  for (const int cpu : {0, 1, 2, 3}) add_cpu(cpu, "cpu_capacity", cpu < 2 ? "250" : "1024");
  EXPECT_EQ(order({0, 1, 2, 3}).cpus, (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(order({0, 1, 2, 3}).cores, 2);
}

TEST_F(FakeRoot, HybridProcessorUsesEfficientCoresBeforeSecondThreads) {
  for (const int cpu : {0, 1, 2, 3}) {
    add_cpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2-3");
    add_cpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 2 ? "5200000" : "5100000");
  }
  for (const int cpu : {4, 5}) {
    add_cpu(cpu, "topology/thread_siblings_list", std::to_string(cpu));
    add_cpu(cpu, "cpufreq/cpuinfo_max_freq", "3700000");
  }
  EXPECT_EQ(order({0, 1, 2, 3, 4, 5}).cpus, (std::vector<int>{0, 2, 4, 5, 1, 3}));
  EXPECT_EQ(order({0, 1, 2, 3, 4, 5}).cores, 4);
}

TEST_F(FakeRoot, NonsenseInTheTopologyIsIgnored) {
  add_cpu(0, "topology/thread_siblings_list", "all of them");
  add_cpu(0, "cpu_capacity", "-7");
  add_cpu(1, "topology/thread_siblings_list", "0-");
  EXPECT_EQ(order({0, 1}).cpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(order({0, 1}).cores, 2);
}

TEST_F(FakeRoot, QuotaOfAContainer) {
  add("proc/self/cgroup", "0::/");
  add("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
  add("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  add("sys/fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(quota(), 2);
  add("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(quota(), 1);
}

TEST_F(FakeRoot, LeastQuotaOfAllGroupsAbove) {
  add("proc/self/cgroup", "0::/user.slice/job.scope");
  add("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000");
  add("sys/fs/cgroup/user.slice/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 3);
  add("sys/fs/cgroup/user.slice/job.scope/cpu.max", "100000 50000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(FakeRoot, QuotaOfTheOlderGroups) {
  add("proc/self/cgroup", "12:cpuset:/\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123");
  add("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "400000");
  add("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 4);
  add("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(), 0);
}

TEST_F(FakeRoot, OlderGroupSeenFromInsideAContainer) {
  add("proc/self/cgroup", "4:cpuacct,cpu:/docker/0123");
  add("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
  add("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 1);
}

TEST_F(FakeRoot, NonsenseInTheGroupsIsNoLimit) {
  add("proc/self/cgroup", "nothing\n0:\n0::/../../etc\n3:cpu:/a");
  add("sys/fs/cgroup/cpu.max", "1000");
  EXPECT_EQ(quota(), 0);
  add("sys/fs/cgroup/cpu.max", "");
  EXPECT_EQ(quota(), 0);
}

TEST_F(FakeRoot, MemoryOfAContainer) {
  EXPECT_EQ(memory(), 0);
  add("proc/self/cgroup", "0::/user.slice/job.scope");
  add("sys/fs/cgroup/user.slice/job.scope/memory.max", "max");
  EXPECT_EQ(memory(), 0);
  add("sys/fs/cgroup/user.slice/memory.max", "3000000000");
  EXPECT_EQ(memory(), 3000000000);
  add("sys/fs/cgroup/user.slice/job.scope/memory.max", "536870912");
  EXPECT_EQ(memory(), 536870912);
}

TEST_F(FakeRoot, MemoryOfTheOlderGroups) {
  add("proc/self/cgroup", "5:devices:/\n4:hugetlb,memory:/jobs/7\n1:cpu:/jobs/7\n0::/");
  add("sys/fs/cgroup/cpu/jobs/7/memory.limit_in_bytes", "1");
  add("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(memory(), 9223372036854771712);
  add("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "1073741824");
  EXPECT_EQ(memory(), 1073741824);
}

TEST_F(FakeRoot, NonsenseAboutMemoryIsNoLimit) {
  add("proc/self/cgroup", "0::/../../etc\n3:memory:/a");
  add("sys/fs/cgroup/memory.max", "-5");
  add("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "plenty");
  EXPECT_EQ(memory(), 0);
}

TEST(UsableMemory, IsSomeAndNoMoreThanTheMachineHas) {
  EXPECT_GT(usable_memory(), 0);
  EXPECT_LE(usable_memory(), std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

TEST(DefaultThreads, OneACoreWithinTheQuota) {
  EXPECT_EQ(tsr_default_threads(64, 32, 0), 32);
  EXPECT_EQ(tsr_default_threads(64, 32, 2), 2);
  EXPECT_EQ(tsr_default_threads(2, 1, 0), 2);
  EXPECT_EQ(tsr_default_threads(1, 1, 0), 1);
  EXPECT_EQ(tsr_default_threads(2, 2, 1), 1);
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), usable_cpus());
  EXPECT_LE(usable_cpus(), static_cast<int>(allowed_cpus().size()));
}

TEST(AllowedCpus, OrderHasTheSameMembers) {
  std::vector<int> order = cpu_order();
  std::ranges::sort(order);
  EXPECT_EQ(order, allowed_cpus());
}

TEST(AllowedCpus, SortedAndStable) {
  const std::vector<int>& cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cpus));
  EXPECT_EQ(&cpus, &allowed_cpus());
}

TEST(HostCaches, AreFilledIn) {
  const Caches caches = host_caches(allowed_cpus().front());
  EXPECT_GT(caches.l1_bytes, 0);
  EXPECT_GT(caches.l2_bytes, 0);
  EXPECT_GT(caches.line_bytes, 0);
}

}  // namespace
}  // namespace tessera::target
